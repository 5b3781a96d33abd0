#include "memplan/pricing.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "base/deadline.hpp"
#include "base/time_share.hpp"
#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/plan.hpp"
#include "memplan/solve.hpp"
#include "memplan/verify.hpp"
#include "pricing/cores.hpp"
#include "pricing/group_bound.hpp"
#include "pricing/open_pairs.hpp"
#include "pricing/pair_ranges.hpp"
#include "pricing/price_search.hpp"
#include "problem/fold.hpp"
#include "problem/unbranched.hpp"

namespace memplan {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFewPairs = 128;                 // whose cores are looked for
constexpr std::int64_t kFirstPricingWork = 1'000'000;  // of a round; the next has twice as much
constexpr double kForSearch = 0.95, kForPeak = 0.3;    // of the time that there is then
constexpr double kForCores = 0.4, kForGroups = 0.15;   // of that of the search
constexpr double kLastRound = 0.4;                     // what a round takes that goes on to the end
constexpr double kForPlanner = 0.2;                    // of the time limit, what has to be left for a planner

// More bytes than any plan needs.
Bytes room_for_all(const Problem& problem) {
  Bytes room = end_of_fixed(problem);
  for (Index i = 0; i < problem.count(); ++i)
    room = saturated_add(room, saturated_add(problem.size(i), problem.alignment(i)));
  return room;
}

void require_valid(const Verifier& verifier, std::span<const Bytes> offsets, Bytes capacity) {
  constexpr std::size_t kListed = 20;
  const std::vector<Violation> faults = verifier.violations(offsets, capacity, kListed);
  if (faults.empty()) return;
  std::string message = "the plan at a price is invalid:";
  for (const Violation& fault : faults) message += "\n  " + fault.message;
  throw InvalidPlanError(message);
}

class Pricing {
 public:
  Pricing(const Problem& problem, std::span<const PairPrice> prices, std::span<const Bytes> start,
          const PlanOptions& options, const PricingEffort& effort, const OnPricedPlan& tell)
      : problem_(problem),
        options_(options),
        effort_(effort),
        tell_(tell),
        verifier_(problem),
        begin_(options.start.value_or(Clock::now())),
        plain_(problem.has_branches() ? without_branches(problem) : problem),
        fold_(problem.together().empty() ? std::nullopt : std::optional<Fold>(plain_)),
        open_(open_pairs(plain_, fold_ ? &*fold_ : nullptr, prices)) {
    options_.start = begin_;
    if (options.stop)
      options_.stop = [this, stop = options.stop] { return best_.interrupted = best_.interrupted || stop(); };
    best_.offsets.assign(start.begin(), start.end());
    best_.peak = peak_of(problem, start);
    open_price_ = price_of(problem, open_.pairs, start);
    best_.price = open_.paid_anyway + open_price_;
    best_.price_bound = open_.paid_anyway;
    best_.peak_bound = options.lower_bound;
  }

  PricedPlan run() && {
    tell();
    const Deadline deadline(options_);
    try {
      if (open_price_ > 0 && !options_.capacity) apart(deadline);
      if (open_price_ > 0) within(std::min(capacity(), room_for_all(flat())), deadline);
      if (open_price_ == 0 && best_.peak > best_.peak_bound && has_time(deadline)) lower_peak_apart(deadline);
    } catch (const EndedError&) {
    }
    best_.seconds = seconds_since(begin_);
    require_valid(verifier_, best_.offsets, capacity());
    return std::move(best_);
  }

 private:
  const Problem& flat() const { return fold_ ? fold_->problem() : plain_; }
  Bytes capacity() const { return options_.capacity.value_or(kMaxBytes); }
  bool cheapest() const { return best_.price == best_.price_bound; }

  // A planner needs some, whatever it finds.
  bool has_time(const Deadline& deadline) const {
    const auto left = deadline.left();
    return !left || *left > kForPlanner * *options_.time_limit;
  }

  // Keeps the cheaper plan; of two at one price, the lower.
  void take(std::vector<Bytes> offsets, double after) {
    const std::int64_t price = price_of(problem_, open_.pairs, offsets);
    const Bytes peak = peak_of(problem_, offsets);
    if (peak > capacity()) return;  // what more bytes would save
    if (price > open_price_ || (price == open_price_ && peak >= best_.peak)) return;
    best_.offsets = std::move(offsets);
    open_price_ = price;
    best_.price = open_.paid_anyway + price;
    best_.peak = peak;
    best_.found_after = after;
    tell();
  }

  void tell() const {
    if (!tell_) return;
    require_valid(verifier_, best_.offsets, capacity());
    tell_(best_);
  }

  void take(const PriceSearch& search) { take(fold_ ? fold_->unfolded(search.best()) : search.best(), found_after_); }

  // Without a capacity nothing has to share: what pays goes elsewhere, at first as high as it takes.
  void apart(const Deadline& deadline) {
    deadline.check();
    PairRanges ranges(flat(), open_.flat);
    PriceSearch search(flat(), ranges, fold_ ? fold_->folded(best_.offsets) : best_.offsets, room_for_all(flat()),
                       options_.seed);
    try {
      search.move_payers(deadline, better(search));
      in_share(kForPeak, deadline,
               [&](const Deadline& ends) { search.lower_peak(best_.peak_bound, ends, better(search)); });
    } catch (const EndedError&) {
    }
    take(search);
  }

  // Where no open pair shares, all of them conflict, and a planner looks for the lowest peak.
  void lower_peak_apart(const Deadline& deadline) {
    deadline.check();
    Problem problem = problem_;
    if (!open_.pairs.empty()) {
      Conflicts conflicts = problem_.conflicts() == nullptr ? Conflicts(problem_.count()) : *problem_.conflicts();
      for (const PairPrice& pair : open_.pairs) conflicts.add(pair.a, pair.b);
      problem = problem_.with_conflicts(std::move(conflicts));
    }
    PlanOptions options;
    options.time_limit = deadline.left();
    options.stop = options_.stop;
    options.seed = options_.seed;
    Plan found = solve(problem, "auto:effort=2000000", options);
    take(std::move(found.offsets), seconds_since(begin_));
    best_.peak_bound = std::max(best_.peak_bound, found.lower_bound);
  }

  void within(Bytes capacity, const Deadline& deadline) {
    deadline.check();
    PairRanges ranges(flat(), open_.flat);
    PriceSearch search(flat(), ranges, fold_ ? fold_->folded(best_.offsets) : best_.offsets, capacity, options_.seed);
    Cores cores(problem_, open_.pairs, effort_.tries, options_.stop,
                [&](std::vector<Bytes> offsets) { take(std::move(offsets), seconds_since(begin_)); });
    try {
      in_share(kForSearch, deadline, [&](const Deadline& ends) { lower_price(search, cores, capacity, ends); });
      if (open_price_ > 0) search.lower_peak(best_.peak_bound, deadline, better(search));
    } catch (const EndedError&) {
    }
    take(search);
    if (cheapest() && open_price_ > 0 && open_.pairs.size() <= kFewPairs)
      best_.peak_bound =
          std::max(best_.peak_bound, cores.bound_of_peak(open_price_, best_.peak, best_.peak_bound, deadline));
  }

  void lower_price(PriceSearch& search, Cores& cores, Bytes capacity, const Deadline& deadline) {
    search.begin_greedily(kFirstPricingWork, deadline, better(search));
    round(search, std::min(kFirstPricingWork / 4, most_work() / 200), deadline);
    take(search);
    const auto raise = [&](std::int64_t bound) {
      best_.price_bound = std::max(best_.price_bound, open_.paid_anyway + std::min(bound, open_price_));
    };
    if (!cheapest() && open_.pairs.size() <= kFewPairs)
      in_share(kForCores, deadline,
               [&](const Deadline& ends) { raise(cores.bound_of_price(capacity, open_price_, ends)); });
    if (!cheapest())
      in_share(kForGroups, deadline, [&](const Deadline& ends) {
        raise(bound_by_groups(plain_, open_.pairs, capacity, open_price_, options_.seed, ends));
      });
    if (open_price_ < search.price()) search.take(fold_ ? fold_->folded(best_.offsets) : best_.offsets);
    const std::int64_t end = search.work() + std::min(effort_.work, most_work());
    for (std::int64_t work = kFirstPricingWork; search.price() > best_.price_bound - open_.paid_anyway; work *= 2) {
      if (!deadline.left() && search.work() >= end) break;
      round(search, deadline.left() ? work : std::min(work, end - search.work()), deadline);
    }
  }

  // Beyond that, searches of small problems find nothing new.
  std::int64_t most_work() const {
    return 2'000'000 + 200'000 * (problem_.count() + static_cast<std::int64_t>(open_.pairs.size()));
  }

  // So much work, or, where the next round would not end in time, all the time that is left.
  void round(PriceSearch& search, std::int64_t work, const Deadline& deadline) {
    const std::int64_t first = search.work();
    const Clock::time_point begin = Clock::now();
    const auto left = deadline.left();
    double share = 0;
    const auto progress = [&] {
      const double spent = static_cast<double>(search.work() - first) / static_cast<double>(work);
      if (!left) return spent;
      const double seconds = seconds_since(begin);
      if (share == 0 && spent > 0.01 && seconds > 0) share = seconds / spent / *left;
      return share > kLastRound ? seconds / *left : spent;
    };
    search.anneal(progress, best_.price_bound - open_.paid_anyway, deadline, better(search));
  }

  PriceSearch::OnBetter better(const PriceSearch& search) {
    return [this, &search] {
      found_after_ = seconds_since(begin_);
      if (tell_) take(search);
    };
  }

  // Ends it at this share of the time that is left.
  template <class Work>
  void in_share(double share, const Deadline& deadline, Work&& work) {
    PlanOptions part;
    part.stop = options_.stop;
    part.time_limit = share_of(deadline.left(), share);
    const Deadline ends(part);
    try {
      work(ends);
    } catch (const EndedError&) {
      deadline.check();
    }
  }

  const Problem& problem_;
  PlanOptions options_;
  const PricingEffort effort_;
  const OnPricedPlan& tell_;
  const Verifier verifier_;
  const Clock::time_point begin_;
  const Problem plain_;  // without branches
  const std::optional<Fold> fold_;
  const OpenPairs open_;
  PricedPlan best_;
  std::int64_t open_price_ = 0;  // of the best plan, what open pairs pay
  double found_after_ = 0;       // the best plan of the search
};

}  // namespace

namespace {

bool share_bytes(const Problem& problem, const PairPrice& pair, std::span<const Bytes> offsets) {
  const Bytes a = offsets[at(pair.a)], b = offsets[at(pair.b)];
  return std::max(a, b) < std::min(a + problem.size(pair.a), b + problem.size(pair.b));
}

}  // namespace

std::int64_t price_of(const Problem& problem, std::span<const PairPrice> prices, std::span<const Bytes> offsets) {
  std::int64_t sum = 0;
  for (const PairPrice& pair : prices)
    if (share_bytes(problem, pair, offsets)) sum += pair.price;
  return sum;
}

std::vector<std::pair<Index, Index>> paying_pairs(const Problem& problem, std::span<const PairPrice> prices,
                                                  std::span<const Bytes> offsets) {
  std::vector<std::pair<Index, Index>> pairs;
  for (const PairPrice& pair : prices)
    if (pair.price > 0 && share_bytes(problem, pair, offsets)) pairs.push_back(std::minmax(pair.a, pair.b));
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

PricedPlan cheapest_sharing(const Problem& problem, std::span<const PairPrice> prices, std::span<const Bytes> start,
                            const PlanOptions& options, const PricingEffort& effort, const OnPricedPlan& tell) {
  require_one_per_buffer(problem, start);
  return Pricing(problem, prices, start, options, effort, tell).run();
}

PricedPlan solve_priced(const Problem& problem, std::span<const PairPrice> prices, const PlanOptions& options,
                        const PricingEffort& effort, const OnPricedPlan& tell, const ChosenPlanner& planner) {
  const auto begin = options.start.value_or(Clock::now());
  PlanOptions first = options, rest = options;
  if (!options.capacity) first.time_limit = share_of(options.time_limit, kPartBeforePrices);
  const Plan plan = solve(problem, planner, first);
  rest.start = begin;
  rest.lower_bound = plan.placement_bound;
  PricedPlan found = cheapest_sharing(problem, prices, plan.offsets, rest, effort, tell);
  found.interrupted |= plan.interrupted;
  return found;
}

}  // namespace memplan
