// auto: an anytime portfolio. It holds the best plan so far and stops as soon as its peak equals a bound, which proves
// it, is at most the capacity given, or when the effort is spent or the time is up.
//
//     first_fit ─▶ rounds of   valley          runs at the bound: an optimum, or the proof that there is none there
//                              squeaky_wheel   an order, repaired
//                              valley          runs between the bound and the best peak
//
// In a round each member works for an equal slice of work, from the best plan at the beginning of the round, and the
// best of what they find is kept, ties to the first of them. Slices are counted in work, not in time, so what comes out
// is the same for any number of threads, unless a time limit cuts it short. Slices grow, so that what is easy ends
// early.
//
// Groups of buffers that conflict with all of the others are planned by a portfolio each (search/bands.hpp).
//
// With conflicts beyond lifetimes and with shapes, it begins with the best of some greedy planners, and a search on
// pairs comes first, which is exact where buffers are few; then one by ejection, and one by orders where there are no
// shapes. Conflicts beyond lifetimes are not for the valley search, and where buffers have shapes and are not few it is
// given plain rectangles, and what it proves of those is not kept.
//
// Complexity: O(n log n) and a dive, then as much as the effort allows. Guarantee: at or below the peak of all it
// begins with.
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "memplan/bounds.hpp"
#include "memplan/clique.hpp"
#include "memplan/plan.hpp"
#include "placing/best_so_far.hpp"
#include "placing/in_order.hpp"
#include "planners/planners.hpp"
#include "search/around_pins.hpp"
#include "search/band_member.hpp"
#include "search/members.hpp"
#include "search/window_repair.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kFirstSlice = 1'000'000;
constexpr std::int64_t kLastSlice = 64'000'000;
constexpr std::int64_t kInexactEffort = 200'000;      // per buffer, where nothing but the load can prove an optimum
constexpr std::int64_t kMostCovered = 2'000'000'000;  // sections, by all buffers: what a dive costs at least
constexpr std::int64_t kShortLife = 64;               // sections, by a buffer: then a dive costs little
constexpr std::int64_t kPerSection = 4;               // work of a dive
constexpr std::int64_t kCliqueWorkOfBand = kCliqueWork / 100;
constexpr Bytes kBandsNear = 50;           // bands that need one in so many bytes more have no plan worth it
constexpr Bytes kMostAlignment = 1 << 20;  // of buffers in bands: multiples are small
constexpr std::int64_t kMending = 100;     // buffers looked at, per buffer, before members search
constexpr int kMostLag = 3;

// Rows often come in an order that says something: that of a program, or of who cut them.
Placement as_given(const Problem& problem, const PlanOptions& options) {
  return place_in_order(problem, with_bytes(problem), Deadline(options), lowest_fit);
}

// What else may be a good beginning, for conflicts and shapes.
constexpr std::pair<std::string_view, Placement (*)(const Problem&, const PlanOptions&)> kBeginnings[] = {
    {"orders", as_given},
    {"greedy_by_size", greedy_by_size},
    {"greedy_by_breadth", greedy_by_breadth},
    {"greedy_by_conflicts", greedy_by_conflicts},
    {"xla_heap", xla_heap},
};

// For planners that run within the deadline, on its thread.
PlanOptions options_within(PlanOptions options, const Deadline& deadline) {
  options.time_limit = deadline.left();
  options.start = {};
  options.stop = [&deadline] { return deadline.passed(); };
  options.improved = {};
  options.warm.clear();
  return options;
}

// No plan peaks below a buffer's size; the load may, where a shape leaves its highest bytes unused.
Bytes least_peak(const Problem& problem) {
  Bytes least = load(problem);
  for (const Bytes size : problem.size()) least = std::max(least, size);
  return least;
}

std::unique_ptr<Rounds> make_rounds(const Problem& problem, std::uint64_t seed);

class Portfolio {
 public:
  // Puts the best placement into `best`, which is that of first_plan at first.
  Portfolio(const Problem& problem, const PlanOptions& options, Placement& best)
      : problem_(problem),
        options_(options),
        best_{best, peak_of(problem, best.offsets)},
        bound_(std::max(options.lower_bound, least_peak(problem))) {
    if (best.winner.empty()) best.winner = "first_fit";
    best.lower_bound = bound_;
    const bool effort_set = std::any_of(options.set.begin(), options.set.end(),
                                        [](const auto& set) { return set.first == kPortfolio[0].name; });
    given_ = effort_set || options.time_limit;
    effort_ = options.time_limit && !effort_set ? kEndless : options.get(kPortfolio[0]);
  }

  void run(const Deadline& deadline) {
    begin(deadline);
    for (std::int64_t slice = std::min(kFirstSlice, effort_); !is_over(deadline);
         slice = std::min(2 * slice, kLastSlice))
      round(slice, deadline);
  }

  // What comes before the rounds.
  void begin(const Deadline& deadline) {
    offer_beginnings(deadline);
    if (!is_over(deadline)) mend(deadline);
    if (!is_over(deadline)) gather(deadline);
  }

  // Every member works for a slice.
  void round(std::int64_t slice, const Deadline& deadline) {
    const std::size_t threads = static_cast<std::size_t>(options_.threads);
    std::vector<bool> better(members_.size(), false);
    std::size_t done = 0;
    for (bool enough = false; done < members_.size() && !enough;) {
      const std::size_t end = std::min(members_.size(), done + threads);
      if (end - done == 1) {
        better[done] = search(*members_[done], slice, deadline);
      } else {
        side_by_side(done, end, slice, better, deadline);
      }
      for (; done < end && !enough; ++done) enough = ends_the_search(*members_[done], better[done]);
    }
    merge(done, better);
  }

  // Nothing better is to be expected, or the effort is spent.
  bool is_done() const {
    if (best_.peak <= enough() || is_refuted(bound_) || work_ >= effort_) return true;
    return began_ &&
           std::all_of(members_.begin(), members_.end(), [&](const auto& member) { return member->is_done(best_); });
  }
  bool is_exact() const { return exact_ || (sections_ && !problem_.has_shapes()); }
  Bytes peak() const { return best_.peak; }
  Bytes lower_bound() const { return bound_; }
  std::int64_t work() const { return work_; }

 private:
  void offer_beginnings(const Deadline& deadline) {
    tell();
    if (problem_.conflicts() != nullptr) offer("greedy_by_size", greedy_by_size_until(problem_, deadline).offsets);
    if (!is_general() || !Obstacles::serves(problem_)) return;
    const PlanOptions within = options_within(options_, deadline);
    for (const auto& [name, start] : kBeginnings)
      if (!is_over(deadline)) offer(name, start(problem_, within).offsets);
  }

  // What ends above the bound in a few places is often mended for little.
  void mend(const Deadline& deadline) {
    if (problem_.conflicts() != nullptr || problem_.has_shapes()) return;
    std::vector<Bytes> offsets = best_.placement.offsets;
    std::int64_t left = kMending * problem_.count();
    try {
      repair_in_windows(problem_, offsets, enough(), options_.seed, left, deadline);
    } catch (const EndedError&) {
    }
    offer("squeaky_wheel", std::move(offsets));
  }

  void gather(const Deadline& deadline) {
    began_ = true;
    if (problem_.conflicts() != nullptr && may_be_bands() && add_lossless_bands(deadline)) return;
    if (is_general()) add_pairs(deadline);
    if (problem_.conflicts() != nullptr && may_be_bands() && !exact_) add_likely_bands(deadline);
    if (problem_.conflicts() == nullptr && !exact_) lay_out_sections(deadline);
    if (!is_exact()) limit_effort();
    if (is_general() && best_.peak <= PairSqueeze::kMostBytes) add_general();
    if (sections_) add_valley(options_.seed, 1);
    members_.push_back(std::make_unique<WheelMember>(problem_, bound_, options_.seed));
    if (sections_ && has_long_lives()) std::swap(members_[members_.size() - 2], members_.back());
    if (sections_) add_valley(options_.seed + 1, kEndless);
  }

  void limit_effort() {
    if (!given_) effort_ = std::min(effort_, kInexactEffort * problem_.count());
  }

  // Sums of peaks and multiples of all alignments are small enough.
  bool may_be_bands() const {
    Bytes bytes = 0, multiple = 1;
    for (Index i = 0; i < problem_.count(); ++i) {
      if (problem_.alignment(i) > kMostAlignment) return false;
      multiple = std::lcm(multiple, problem_.alignment(i));
      if (multiple > kMostAlignment) return false;
      bytes += problem_.size(i);
    }
    return problem_.count() <= kMostInBands && bytes <= PairSqueeze::kMostBytes;
  }

  // Whether nothing else is needed.
  bool add_lossless_bands(const Deadline& deadline) {
    std::vector<Band> bands = separate_bands(problem_, deadline);
    const bool separate = bands.size() > 1;
    if (!separate) bands = joined_bands(problem_, deadline);
    if (bands.empty() || (bands.size() == 1 && bands.front().problem.conflicts() != nullptr)) return false;
    exact_ = std::all_of(bands.begin(), bands.end(), [](const Band& band) {
      return band.problem.count() <= PairSqueeze::kMostItems ||
             (band.problem.conflicts() == nullptr && !band.problem.has_shapes());
    });
    if (!exact_) limit_effort();
    auto member = std::make_unique<BandMember>(problem_, std::move(bands),
                                               separate ? BandMember::Bands::separate : BandMember::Bands::joined,
                                               options_.seed, make_rounds);
    const bool lossless = member->is_lossless();
    exact_ = exact_ && lossless;
    members_.push_back(std::move(member));
    return lossless;
  }

  void add_likely_bands(const Deadline& deadline) {
    if (problem_.has_shapes()) return;
    std::vector<Band> bands = likely_bands(problem_, deadline);
    Bytes least = 0;
    for (const Band& band : bands)
      least += heaviest_clique(band.problem, options_within(options_, deadline), kCliqueWorkOfBand).bytes;
    if (bands.empty() || least >= best_.peak || least - bound_ > bound_ / kBandsNear) return;
    members_.push_back(std::make_unique<BandMember>(problem_, std::move(bands), BandMember::Bands::likely,
                                                    options_.seed, make_rounds));
  }

  void lay_out_sections(const Deadline& deadline) {
    plain_.emplace(problem_.without_shapes());
    sections_.emplace(*plain_, deadline);
    if (sections_->covered > kMostCovered) sections_.reset();
    if (sections_ && !problem_.has_shapes()) raise_bound(sections_->highest_load());
  }

  void add_general() {
    if (Obstacles::serves(problem_))
      members_.push_back(std::make_unique<EndlessMember<EjectionSearch>>(problem_, options_.seed, "ejection"));
    if (!problem_.has_shapes() && problem_.count() <= OrderSearch::kMostBuffers)
      members_.push_back(std::make_unique<EndlessMember<OrderSearch>>(problem_, options_.seed, "orders"));
  }

  bool is_general() const { return problem_.conflicts() != nullptr || problem_.has_shapes(); }
  bool has_long_lives() const { return sections_->covered / kShortLife > problem_.count(); }

  void add_pairs(const Deadline& deadline) {
    if (problem_.count() > PairSqueeze::kMostBuffers || best_.peak > PairSqueeze::kMostBytes) return;
    auto member = std::make_unique<PairMember>(problem_, bound_, options_.seed, deadline);
    exact_ = member->is_exact();
    if (!member->is_done(best_)) members_.push_back(std::move(member));
  }

  void add_valley(std::uint64_t seed, std::int64_t at_bound) {
    const std::int64_t least = has_long_lives() ? kPerSection * sections_->covered : 0;
    members_.push_back(std::make_unique<ValleyMember>(*plain_, *sections_, seed, at_bound, least));
  }

  bool is_over(const Deadline& deadline) const { return is_done() || deadline.passed(); }
  // Whether nothing fits the capacity, and no more was asked.
  bool is_refuted(Bytes bound) const { return options_.decide && bound > options_.capacity.value_or(kMaxBytes); }
  Bytes enough() const { return options_.enough(bound_); }

  void offer(std::string_view member, std::vector<Bytes> offsets) {
    if (peak_of(problem_, offsets) < best_.peak) keep(member, std::move(offsets));
  }

  void keep(std::string_view member, std::vector<Bytes> offsets) {
    best_.peak = peak_of(problem_, offsets);
    best_.placement.offsets = std::move(offsets);
    best_.placement.winner = member;
    tell();
  }

  void tell() const { options_.tell({best_.placement.offsets, best_.peak, bound_, best_.placement.winner}); }

  void raise_bound(Bytes bound) { best_.placement.lower_bound = bound_ = std::max(bound_, bound); }

  // Whether it found a better plan.
  bool search(Member& member, std::int64_t slice, const Deadline& deadline) const {
    try {
      deadline.check();
      return member.search(best_, enough(), share(member, slice), deadline);
    } catch (const EndedError&) {
      return false;
    }
  }

  // Less for those whose kind found nothing in rounds in which others did.
  std::int64_t share(const Member& member, std::int64_t slice) const {
    const auto lag = lag_.find(member.name());
    return lag == lag_.end() ? slice : slice >> lag->second;
  }

  bool ends_the_search(const Member& member, bool better) const {
    if (proves(member) && (member.lower_bound() >= best_.peak || is_refuted(member.lower_bound()))) return true;
    return better && peak_of(problem_, member.offsets()) <= enough();
  }

  // What is proven of plain rectangles does not hold for shapes.
  bool proves(const Member& member) const {
    return member.lower_bound() > 0 && (!problem_.has_shapes() || member.name() != "valley");
  }

  // The members [begin, end), each on a thread of its own, while this one watches for who asks to stop.
  void side_by_side(std::size_t begin, std::size_t end, std::int64_t slice, std::vector<bool>& better,
                    const Deadline& deadline) {
    std::atomic<bool> stop = false;
    PlanOptions watched;
    watched.time_limit = deadline.left();
    watched.stop = [&stop] { return stop.load(std::memory_order_relaxed); };
    std::vector<std::future<bool>> running;
    for (std::size_t k = begin; k < end; ++k)
      running.push_back(
          std::async(std::launch::async, [&, k] { return search(*members_[k], slice, Deadline(watched)); }));
    for (std::size_t k = begin; k < end; ++k) {
      std::future<bool>& future = running[k - begin];
      while (future.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready)
        if (deadline.passed()) stop = true;
      better[k] = future.get();
      if (ends_the_search(*members_[k], better[k])) stop = true;  // those after it count no more
    }
  }

  // What the first `done` members found.
  void merge(std::size_t done, const std::vector<bool>& better) {
    work_ = 0;
    for (std::size_t k = 0; k < members_.size(); ++k) {
      const Member& member = *members_[k];
      if (k < done && proves(member)) raise_bound(member.lower_bound());
      if (k < done && better[k]) offer(member.name(), member.offsets());
      work_ += member.work();
    }
    if (std::find(better.begin(), better.end(), true) != better.end()) note_winner();
  }

  void note_winner() {
    if (lag_.contains(best_.placement.winner)) return lag_.clear();
    std::set<std::string_view> others;
    for (const auto& member : members_)
      if (member->name() != best_.placement.winner && !member->seeks_proofs()) others.insert(member->name());
    for (const std::string_view kind : others) lag_[kind] = std::min(lag_[kind] + 1, kMostLag);
  }

  const Problem& problem_;
  const PlanOptions& options_;
  Incumbent best_;
  Bytes bound_;
  std::int64_t effort_;
  bool given_;          // the effort or the time
  bool exact_ = false;  // by pairs
  bool began_ = false;
  std::int64_t work_ = 0;
  std::map<std::string_view, int> lag_;  // of kinds of members that found nothing while another did: halvings of slices
  std::optional<Problem> plain_;
  std::optional<Sections> sections_;
  std::vector<std::unique_ptr<Member>> members_;
};

// The portfolio of a band. Its effort is that of the whole.
class BandRounds : public Rounds {
 public:
  BandRounds(const Problem& problem, std::uint64_t seed) : problem_(problem) {
    options_.seed = seed;
    options_.set = {{kPortfolio[0].name, kEndless}};
  }

  void round(std::int64_t slice, const Deadline& deadline) override {
    if (!portfolio_) begin(deadline);
    if (!portfolio_->is_done()) portfolio_->round(slice, deadline);
  }
  bool has_plan() const override { return portfolio_.has_value(); }
  bool is_done() const override { return portfolio_ && portfolio_->is_done(); }
  const std::vector<Bytes>& offsets() const override { return best_.offsets; }
  Bytes peak() const override { return portfolio_->peak(); }
  Bytes lower_bound() const override { return portfolio_->lower_bound(); }
  std::int64_t work() const override { return portfolio_ ? portfolio_->work() : 0; }

 private:
  void begin(const Deadline& deadline) {
    best_ = first_plan(problem_, deadline);
    options_.lower_bound = heaviest_clique(problem_, options_within(options_, deadline), kCliqueWorkOfBand).bytes;
    portfolio_.emplace(problem_, options_, best_);
    portfolio_->begin(deadline);
  }

  const Problem& problem_;
  PlanOptions options_;
  Placement best_;
  std::optional<Portfolio> portfolio_;
};

std::unique_ptr<Rounds> make_rounds(const Problem& problem, std::uint64_t seed) {
  return std::make_unique<BandRounds>(problem, seed);
}

}  // namespace

Placement portfolio(const Problem& problem, const PlanOptions& options) {
  if (problem.has_pins() || !problem.reserved().empty()) return around_pins(problem, options, portfolio, kPortfolio[0]);
  return best_so_far(problem, options, [&](Placement& best, const Deadline& deadline) {
    Portfolio(problem, options, best).run(deadline);
  });
}

}  // namespace memplan
