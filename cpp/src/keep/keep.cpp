#include "memplan/keep.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>

#include "base/deadline.hpp"
#include "base/time_share.hpp"
#include "keep/fewest_moves.hpp"
#include "keep/wished_offsets.hpp"
#include "memplan/errors.hpp"
#include "memplan/near.hpp"
#include "memplan/registry.hpp"
#include "memplan/solve.hpp"
#include "memplan/verify.hpp"
#include "problem/orders.hpp"
#include "problem/reduction.hpp"
#include "solve/attempt.hpp"

namespace memplan {

namespace {

constexpr std::string_view kRule = "greedy_by_size", kSearch = "auto:effort=2000000";
constexpr std::size_t kFew = 16;                   // wishes that searches decide, and that are tried again by them
constexpr int kMostTries = 200, kLastTries = 8;    // with what a rule or a search places around what is kept
constexpr std::int64_t kWorkOfTries = 20'000'000;  // buffers placed in all tries
constexpr int kQuestions = 2000;

class Keeper {
 public:
  Keeper(const Problem& problem, const Plan& plan, std::span<const Bytes> wishes, Bytes limit,
         const PlanOptions& options)
      : problem_(problem),
        wishes_(wishes),
        limit_(limit),
        options_(options),
        deadline_(options),
        sorted_(wishes_of(problem, wishes, limit)),
        offsets_(plan.offsets),
        peak_(plan.peak),
        kept_(kept(plan.offsets)) {}

  void run() {
    bound_ = sorted_.refused + sorted_.apart;
    if (all_stay()) return consider({wishes_.begin(), wishes_.end()});
    try {
      push();
      if (sorted_.open.size() <= kFew)
        decide(sorted_.open);
      else
        grow();
    } catch (const InterruptedError&) {
      interrupted_ = true;
    } catch (const EndedError&) {
    }
  }

  const std::vector<Bytes>& offsets() const { return offsets_; }
  Index bound() const { return bound_; }
  bool interrupted() const { return interrupted_; }

 private:
  bool stays(Index i, std::span<const Bytes> offsets) const {
    return wishes_[at(i)] != kNowhere && problem_.size(i) > 0 && offsets[at(i)] == wishes_[at(i)];
  }

  Index kept(std::span<const Bytes> offsets) const {
    Index count = 0;
    for (Index i = 0; i < problem_.count(); ++i) count += stays(i, offsets);
    return count;
  }

  Index movable() const { return static_cast<Index>(sorted_.open.size()) + sorted_.granted + sorted_.refused; }

  // More that is kept is better, then a lower peak.
  void consider(std::vector<Bytes> offsets) {
    const Bytes peak = peak_of(problem_, offsets);
    const Index count = peak <= limit_ ? kept(offsets) : -1;
    if (std::pair(-count, peak) >= std::pair(-kept_, peak_)) return;
    offsets_ = std::move(offsets);
    kept_ = count;
    peak_ = peak;
  }

  // Whether the wishes are a plan: of rectangles alone, each of which has one that overlaps no other.
  bool all_stay() const {
    if (problem_.conflicts() != nullptr || problem_.has_shapes() || problem_.has_pins() || problem_.has_branches() ||
        !problem_.reserved().empty() || !problem_.together().empty() || sorted_.apart > 0)
      return false;
    return static_cast<Index>(sorted_.open.size()) == problem_.count();
  }

  // What does not fit where it was pushes up what lies on it: perhaps no more is needed.
  void push() {
    std::vector<Bytes> near(wishes_.size(), kNowhere);
    for (const Index i : sorted_.open) near[at(i)] = wishes_[at(i)];
    if (problem_.together().empty()) return consider(placed_near(problem_, near, options_));
    const Reduction reduction(problem_, Reduction::LowBytes::kKept);
    consider(reduction.restored(placed_near(reduction.problem(), reduction.reduced(near), options_)));
  }

  // Those that are where they should be, and the others, small ones first.
  std::pair<std::vector<Index>, std::vector<Index>> split() const {
    std::pair<std::vector<Index>, std::vector<Index>> parts;
    for (const Index i : sorted_.open) (stays(i, offsets_) ? parts.first : parts.second).push_back(i);
    const auto area = [&](Index i) {
      return static_cast<double>(problem_.size(i)) * static_cast<double>(length_of_life(problem_, i));
    };
    std::stable_sort(parts.second.begin(), parts.second.end(), [&](Index a, Index b) { return area(a) < area(b); });
    return parts;
  }

  std::optional<Problem> pinned(const std::vector<Index>& stay) const {
    std::vector<Bytes> pins(wishes_.size(), kNowhere);
    for (Index i = 0; i < problem_.count(); ++i) pins[at(i)] = problem_.pin(i);
    for (const Index i : stay) pins[at(i)] = wishes_[at(i)];
    try {
      return problem_.with_pins(std::move(pins), {problem_.reserved().begin(), problem_.reserved().end()});
    } catch (const ProblemError&) {  // they meet, or are at wrong distances
      return std::nullopt;
    }
  }

  PlanOptions options(const ChosenPlanner& chosen) const {
    PlanOptions options;
    options.stop = options_.stop;
    options.time_limit = deadline_.left();
    options.seed = options_.seed;
    options.threads = options_.threads;
    options.set = chosen.set;
    return options;
  }

  // Whether a plan with these where they should be, within the limit, is found, or cannot be.
  FewestMoves::Answer ask(const std::vector<Index>& stay, std::string_view planner) {
    deadline_.check();
    const std::optional<Problem> problem = pinned(stay);
    if (!problem) return FewestMoves::Answer::cannot;
    const ChosenPlanner chosen = choose_planner(planner);
    PlanOptions asked = options(chosen);
    asked.capacity = limit_;
    asked.decide = true;
    Placement placement;
    try {
      if (planner == kSearch) asked.lower_bound = bound_of(*problem, asked);
      if (asked.lower_bound > limit_) return FewestMoves::Answer::cannot;
      placement = memplan::run(chosen.planner, *problem, asked);
    } catch (const ProblemError&) {  // what lies together cannot, with these pins
      return FewestMoves::Answer::cannot;
    } catch (const UnsupportedError&) {
      return FewestMoves::Answer::unknown;
    }
    const bool fits = peak_of(problem_, placement.offsets) <= limit_;
    if (fits) consider(std::move(placement.offsets));
    deadline_.check();
    if (fits) return FewestMoves::Answer::fits;
    return placement.lower_bound > limit_ ? FewestMoves::Answer::cannot : FewestMoves::Answer::unknown;
  }

  // The lowest peak with what stays.
  void lower() {
    const std::optional<Problem> problem = pinned(split().first);
    if (!problem) return;
    const ChosenPlanner chosen = choose_planner(kSearch);
    PlanOptions asked = options(chosen);
    asked.lower_bound = bound_of(*problem, asked);
    if (asked.lower_bound < peak_) consider(memplan::run(chosen.planner, *problem, asked).offsets);
    deadline_.check();
  }

  // As many as the work allows.
  int tries_within(int least, int most) const {
    return static_cast<int>(std::clamp<std::int64_t>(kWorkOfTries / std::max<Index>(problem_.count(), 1), least, most));
  }

  // The fewest moves of few wishes; then the lowest peak with them.
  void decide(const std::vector<Index>& all) {
    const auto chosen = [&](FewestMoves::Set set) {
      std::vector<Index> some;
      for (std::size_t k = 0; k < all.size(); ++k)
        if ((set >> k) & 1) some.push_back(all[k]);
      return some;
    };
    const Index given = sorted_.granted + sorted_.refused;
    FewestMoves search(static_cast<int>(all.size()), static_cast<int>(movable() - given - (kept_ - sorted_.granted)),
                       [&](FewestMoves::Set set) { return ask(chosen(set), kSearch); });
    bound_ = std::max<Index>(bound_, sorted_.refused + search.run(tries_within(kLastTries, kQuestions)));
    lower();
  }

  // Keeps ever more of what has moved, around what stays; then around nothing, for perhaps other ones can stay.
  void grow() {
    tries_ = tries_within(kLastTries, kMostTries);
    auto [stay, rest] = split();
    if (rest.empty()) return;
    std::vector<Index> all = stay;
    all.insert(all.end(), rest.begin(), rest.end());
    if (tried(all, kRule)) return;
    grow(stay, rest, kRule);
    std::tie(stay, rest) = split();
    if (rest.size() > 1) {  // one has to move, for not all can stay
      all = rest;
      all.insert(all.end(), stay.begin(), stay.end());
      grow({}, all, kRule);
      std::tie(stay, rest) = split();
    }
    tries_ = std::min(tries_, kLastTries);
    if (rest.size() > 1 && rest.size() <= kFew) grow(stay, rest, kSearch);
  }

  // Keeps as many of the rest besides as it can, in ever smaller pieces.
  void grow(std::vector<Index> stay, std::vector<Index> rest, std::string_view planner) {
    for (std::size_t piece = std::max<std::size_t>(rest.size() / 2, 1); !rest.empty() && tries_ > 0; piece /= 2) {
      std::vector<Index> left;
      for (std::size_t from = 0; from < rest.size(); from += piece) {
        const auto end = rest.begin() + static_cast<std::ptrdiff_t>(std::min(from + piece, rest.size()));
        std::vector<Index> more = stay;
        more.insert(more.end(), rest.begin() + static_cast<std::ptrdiff_t>(from), end);
        if (tried(more, planner))
          stay = std::move(more);
        else
          left.insert(left.end(), rest.begin() + static_cast<std::ptrdiff_t>(from), end);
      }
      if (piece == 1) return;
      rest = std::move(left);
    }
  }

  bool tried(const std::vector<Index>& stay, std::string_view planner) {
    return tries_-- > 0 && ask(stay, planner) == FewestMoves::Answer::fits;
  }

  const Problem& problem_;
  const std::span<const Bytes> wishes_;
  const Bytes limit_;
  const PlanOptions& options_;
  const Deadline deadline_;
  const Wishes sorted_;
  std::vector<Bytes> offsets_;
  Bytes peak_;
  Index kept_;
  Index bound_ = 0;
  int tries_ = 0;
  bool interrupted_ = false;
};

}  // namespace

Kept keep(const Problem& problem, Plan plan, std::span<const Bytes> wishes, const PlanOptions& options) {
  require_one_per_buffer(problem, plan.offsets);
  require_one_per_buffer(problem, wishes);
  check_options(options);
  const auto begin = std::chrono::steady_clock::now();
  Keeper keeper(problem, plan, wishes, std::max(plan.peak, options.capacity.value_or(0)), options);
  keeper.run();
  Kept kept{std::move(plan), {}, keeper.bound()};
  kept.plan.offsets = keeper.offsets();
  kept.plan.peak = peak_of(problem, kept.plan.offsets);
  kept.plan.optimal = kept.plan.peak == kept.plan.lower_bound;
  kept.plan.interrupted |= keeper.interrupted();
  kept.plan.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  throw_if_any(Verifier(problem).violations(kept.plan.offsets, kMaxBytes, kListedViolations),
               choose_planner(kRule).planner);
  for (Index i = 0; i < problem.count(); ++i)
    if (wishes[at(i)] != kNowhere && problem.size(i) > 0 && kept.plan.offsets[at(i)] != wishes[at(i)])
      kept.moved.push_back(i);
  return kept;
}

Kept solve_keeping(const Problem& problem, std::span<const Bytes> wishes, const PlanOptions& options,
                   const ChosenPlanner& planner) {
  const auto begin = options.start.value_or(std::chrono::steady_clock::now());
  PlanOptions first = options, rest = options;
  if ((planner.planner.supports & kStart) != 0) first.time_limit = share_of(options.time_limit, kPartBeforeKeep);
  Plan plan = solve(problem, planner, first);
  rest.start = begin;
  return keep(problem, std::move(plan), wishes, rest);
}

}  // namespace memplan
