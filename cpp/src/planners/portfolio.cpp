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
#include <set>

#include "memplan/bounds.hpp"
#include "memplan/plan.hpp"
#include "placing/best_so_far.hpp"
#include "placing/in_order.hpp"
#include "planners/planners.hpp"
#include "search/around_pins.hpp"
#include "search/ejection_search.hpp"
#include "search/order_search.hpp"
#include "search/pair_squeeze.hpp"
#include "search/squeaky_search.hpp"
#include "search/squeeze.hpp"
#include "search/window_repair.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kFirstSlice = 1'000'000;
constexpr std::int64_t kLastSlice = 64'000'000;
constexpr std::int64_t kInexactEffort = 200'000;      // per buffer, where nothing but the load can prove an optimum
constexpr std::int64_t kMostCovered = 2'000'000'000;  // sections, by all buffers: what a dive costs at least
constexpr std::int64_t kShortLife = 64;               // sections, by a buffer: then a dive costs little
constexpr std::int64_t kPerSection = 4;               // work of a dive
constexpr std::int64_t kMending = 100;                // buffers looked at, per buffer, before members search
constexpr int kMostLag = 3;
constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

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

// No plan peaks below a buffer's size; the load may, where a shape leaves its highest bytes unused.
Bytes least_peak(const Problem& problem) {
  Bytes least = load(problem);
  for (const Bytes size : problem.size()) least = std::max(least, size);
  return least;
}

// The best plan so far.
struct Incumbent {
  Placement& placement;
  Bytes peak;
};

// What searches in a slice, and what it found there.
class Member {
 public:
  virtual ~Member() = default;
  // Works for about that much, from the best plan so far; true if it found a better one. Where the deadline throws, it
  // has found none.
  virtual bool search(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) = 0;
  virtual bool is_done(const Incumbent& best) const = 0;  // nothing better is to be expected from it
  virtual bool seeks_proofs() const { return false; }     // it is of use where it finds no plan
  virtual std::string_view name() const = 0;
  virtual std::vector<Bytes> offsets() const = 0;
  virtual Bytes lower_bound() const = 0;
  virtual std::int64_t work() const = 0;
};

class ValleyMember : public Member {
 public:
  // Saves its slices up until they allow `least` of work, so that a single run does not take all the time.
  ValleyMember(const Problem& problem, const Sections& sections, std::uint64_t seed, std::int64_t at_bound,
               std::int64_t least)
      : problem_(problem), sections_(sections), seed_(seed), at_bound_(at_bound), least_(least) {}

  bool search(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override {
    saved_ += work;
    if (saved_ < least_) return false;
    if (!squeeze_) squeeze_.emplace(problem_, sections_, sections_.highest_load(), seed_, deadline, at_bound_);
    bool found = false;
    while (!found && saved_ > 0 && squeeze_->lower_bound() < best.peak && !deadline.passed()) {
      const std::int64_t before = squeeze_->work();
      found = enough > squeeze_->lower_bound() ? squeeze_->attempt(enough, kEndless, deadline) == Outcome::found
                                               : squeeze_->step(best.peak, kEndless, deadline);
      saved_ -= squeeze_->work() - before + kPerRun;
    }
    return found;
  }
  bool is_done(const Incumbent& best) const override { return lower_bound() >= best.peak; }
  std::string_view name() const override { return "valley"; }
  std::vector<Bytes> offsets() const override { return squeeze_->offsets(); }
  Bytes lower_bound() const override { return squeeze_ ? squeeze_->lower_bound() : 0; }
  std::int64_t work() const override { return squeeze_ ? squeeze_->work() : 0; }

 private:
  using Outcome = ValleySearch::Outcome;
  const Problem& problem_;
  const Sections& sections_;
  const std::uint64_t seed_;
  const std::int64_t at_bound_, least_;
  static constexpr std::int64_t kPerRun = 1000;  // work of a run that ends at once
  std::int64_t saved_ = 0;
  std::optional<Squeeze> squeeze_;  // made when it is used: it takes memory
};

class WheelMember : public Member {
 public:
  WheelMember(const Problem& problem, Bytes bound, std::uint64_t seed)
      : problem_(problem), bound_(bound), seed_(seed) {}

  bool search(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override {
    if (!wheel_) wheel_.emplace(problem_, seed_, bound_, deadline);
    wheel_->offer(best.placement.offsets);
    return wheel_->step(work / kWorkPerLook, deadline, enough) && wheel_->peak() < best.peak;
  }
  bool is_done(const Incumbent& best) const override { return wheel_ && wheel_->bound() >= best.peak; }
  std::string_view name() const override { return "squeaky_wheel"; }
  std::vector<Bytes> offsets() const override { return {wheel_->best().begin(), wheel_->best().end()}; }
  Bytes lower_bound() const override { return 0; }
  std::int64_t work() const override { return wheel_ ? kWorkPerLook * wheel_->work() : 0; }

 private:
  static constexpr std::int64_t kWorkPerLook = 3;  // it counts buffers looked at, which take longer

  const Problem& problem_;
  const Bytes bound_;
  const std::uint64_t seed_;
  std::optional<SqueakySearch> wheel_;
};

// For conflicts beyond lifetimes and for shapes: exact where buffers are few.
class PairMember : public Member {
 public:
  PairMember(const Problem& problem, Bytes bound, std::uint64_t seed, const Deadline& deadline)
      : squeeze_(problem, bound, seed, deadline) {}

  bool search(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override {
    return squeeze_.step(best.placement.offsets, enough, work, deadline);
  }
  bool is_done(const Incumbent& best) const override { return squeeze_.is_done() || lower_bound() >= best.peak; }
  bool seeks_proofs() const override { return is_exact(); }
  std::string_view name() const override { return "pairs"; }
  std::vector<Bytes> offsets() const override { return squeeze_.offsets(); }
  Bytes lower_bound() const override { return squeeze_.lower_bound(); }
  std::int64_t work() const override { return squeeze_.work(); }

  bool is_exact() const { return squeeze_.is_exact(); }

 private:
  PairSqueeze squeeze_;
};

// A search that proves nothing, and never ends by itself: OrderSearch for conflicts beyond lifetimes, EjectionSearch
// for conflicts and shapes.
template <class Search>
class EndlessMember : public Member {
 public:
  EndlessMember(const Problem& problem, std::uint64_t seed, std::string_view name)
      : problem_(problem), seed_(seed), name_(name) {}

  bool search(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override {
    if (!search_) search_.emplace(problem_, seed_, deadline);
    return search_->step(best.placement.offsets, enough, work, deadline);
  }
  bool is_done(const Incumbent&) const override { return false; }
  std::string_view name() const override { return name_; }
  std::vector<Bytes> offsets() const override { return search_->offsets(); }
  Bytes lower_bound() const override { return 0; }
  std::int64_t work() const override { return search_ ? search_->work() : 0; }

 private:
  const Problem& problem_;
  const std::uint64_t seed_;
  const std::string_view name_;
  std::optional<Search> search_;
};

class Portfolio {
 public:
  // Puts the best placement into `best`, which is that of first_plan at first.
  Portfolio(const Problem& problem, const PlanOptions& options, Placement& best, const Deadline& deadline)
      : problem_(problem),
        options_(options),
        deadline_(deadline),
        best_{best, peak_of(problem, best.offsets)},
        bound_(std::max(options.lower_bound, least_peak(problem))) {
    best.winner = "first_fit";
    best.lower_bound = bound_;
    const bool effort_set = std::any_of(options.set.begin(), options.set.end(),
                                        [](const auto& set) { return set.first == kPortfolio[0].name; });
    given_ = effort_set || options.time_limit;
    effort_ = options.time_limit && !effort_set ? kEndless : options.get(kPortfolio[0]);
  }

  void run() {
    begin();
    if (!is_over()) mend();
    if (is_over()) return;
    gather();
    for (std::int64_t slice = kFirstSlice; !is_over() && !members_.empty(); slice = std::min(2 * slice, kLastSlice))
      round(slice);
  }

 private:
  void begin() {
    tell();
    if (problem_.conflicts() != nullptr) offer("greedy_by_size", greedy_by_size_until(problem_, deadline_).offsets);
    if (!is_general() || !Obstacles::serves(problem_)) return;
    for (const auto& [name, start] : kBeginnings)
      if (!is_over()) offer(name, start(problem_, options_).offsets);
  }

  // What ends above the bound in a few places is often mended for little.
  void mend() {
    if (problem_.conflicts() != nullptr || problem_.has_shapes()) return;
    std::vector<Bytes> offsets = best_.placement.offsets;
    std::int64_t left = kMending * problem_.count();
    try {
      repair_in_windows(problem_, offsets, enough(), options_.seed, left, deadline_);
    } catch (const EndedError&) {
    }
    offer("squeaky_wheel", std::move(offsets));
  }

  void gather() {
    if (is_general()) add_pairs();
    if (problem_.conflicts() == nullptr && !exact_pairs_) lay_out_sections();
    if (!is_exact() && !given_) effort_ = std::min(effort_, kInexactEffort * problem_.count());
    if (is_general() && best_.peak <= PairSqueeze::kMostBytes) add_general();
    if (sections_) add_valley(options_.seed, 1);
    members_.push_back(std::make_unique<WheelMember>(problem_, bound_, options_.seed));
    if (sections_ && has_long_lives()) std::swap(members_[members_.size() - 2], members_.back());
    if (sections_) add_valley(options_.seed + 1, kEndless);
  }

  void lay_out_sections() {
    plain_.emplace(problem_.without_shapes());
    sections_.emplace(*plain_, deadline_);
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
  bool is_exact() const { return exact_pairs_ || (sections_ && !problem_.has_shapes()); }

  void add_pairs() {
    if (problem_.count() > PairSqueeze::kMostBuffers || best_.peak > PairSqueeze::kMostBytes) return;
    auto member = std::make_unique<PairMember>(problem_, bound_, options_.seed, deadline_);
    exact_pairs_ = member->is_exact();
    if (!member->is_done(best_)) members_.push_back(std::move(member));
  }

  void add_valley(std::uint64_t seed, std::int64_t at_bound) {
    const std::int64_t least = has_long_lives() ? kPerSection * sections_->covered : 0;
    members_.push_back(std::make_unique<ValleyMember>(*plain_, *sections_, seed, at_bound, least));
  }

  bool is_over() const {
    if (best_.peak <= enough() || is_refuted(bound_) || work_ >= effort_ || deadline_.passed()) return true;
    const auto is_done = [&](const auto& member) { return member->is_done(best_); };
    return !members_.empty() && std::all_of(members_.begin(), members_.end(), is_done);
  }
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

  // Every member works for a slice.
  void round(std::int64_t slice) {
    const std::size_t threads = static_cast<std::size_t>(options_.threads);
    std::vector<bool> better(members_.size(), false);
    std::size_t done = 0;
    for (bool enough = false; done < members_.size() && !enough;) {
      const std::size_t end = std::min(members_.size(), done + threads);
      if (end - done == 1) {
        better[done] = search(*members_[done], slice, deadline_);
      } else {
        side_by_side(done, end, slice, better);
      }
      for (; done < end && !enough; ++done) enough = ends_the_search(*members_[done], better[done]);
    }
    merge(done, better);
  }

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
  void side_by_side(std::size_t begin, std::size_t end, std::int64_t slice, std::vector<bool>& better) {
    std::atomic<bool> stop = false;
    PlanOptions watched;
    watched.time_limit = deadline_.left();
    watched.stop = [&stop] { return stop.load(std::memory_order_relaxed); };
    std::vector<std::future<bool>> running;
    for (std::size_t k = begin; k < end; ++k)
      running.push_back(
          std::async(std::launch::async, [&, k] { return search(*members_[k], slice, Deadline(watched)); }));
    for (std::size_t k = begin; k < end; ++k) {
      std::future<bool>& future = running[k - begin];
      while (future.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready)
        if (deadline_.passed()) stop = true;
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
  const Deadline& deadline_;
  Incumbent best_;
  Bytes bound_;
  std::int64_t effort_;
  bool given_;  // the effort or the time
  bool exact_pairs_ = false;
  std::int64_t work_ = 0;
  std::map<std::string_view, int> lag_;  // of kinds of members that found nothing while another did: halvings of slices
  std::optional<Problem> plain_;
  std::optional<Sections> sections_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace

Placement portfolio(const Problem& problem, const PlanOptions& options) {
  if (problem.has_pins() || !problem.reserved().empty()) return around_pins(problem, options, portfolio, kPortfolio[0]);
  return best_so_far(problem, options, [&](Placement& best, const Deadline& deadline) {
    Portfolio(problem, options, best, deadline).run();
  });
}

}  // namespace memplan
