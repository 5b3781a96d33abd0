#include "search/wheel/squeaky_search.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/luby.hpp"
#include "memplan/bounds.hpp"
#include "memplan/plan.hpp"
#include "placing/in_order.hpp"
#include "search/search.hpp"

namespace memplan {

namespace {

enum class Order { kLoadLength, kLoadSize, kSize, kLength, kArea, kBirth };

struct Start {
  Order order;
  Fit fit;
};

constexpr std::array<Start, SqueakySearch::kStarts> kBeginning = {{
    {Order::kLoadLength, Fit::kTightest},
    {Order::kLoadLength, Fit::kLowest},
    {Order::kLoadSize, Fit::kLowest},
    {Order::kSize, Fit::kTightest},
    {Order::kLength, Fit::kTightest},
    {Order::kArea, Fit::kLowest},
    {Order::kLoadSize, Fit::kTightest},
    {Order::kSize, Fit::kLowest},
    {Order::kLength, Fit::kLowest},
    {Order::kArea, Fit::kTightest},
    {Order::kBirth, Fit::kTightest},
    {Order::kBirth, Fit::kLowest},
}};

constexpr std::size_t kFewOut = 16;    // so few that completing the plan costs little
constexpr std::size_t kPromising = 3;  // starts that are made again
constexpr std::int64_t kMostDoubling = 1024;
constexpr std::int64_t kDescentShare = 4;  // one part of so many
constexpr std::int64_t kTurnsPerRun = 32;  // of a mend, at least
constexpr std::size_t kBoldEvery = 20;     // turns, one may leave one more buffer out
constexpr int kMostHalvings = 8;

Bytes largest_size(const Problem& problem) {
  return problem.count() == 0 ? 0 : *std::max_element(problem.size().begin(), problem.size().end());
}

}  // namespace

SqueakySearch::SqueakySearch(const Problem& problem, std::uint64_t seed, Bytes bound, const Deadline& deadline)
    : problem_(problem),
      bound_(std::max(bound, largest_size(problem))),  // a shape may leave its highest bytes unused
      lives_(section_lives(problem, deadline)),
      repair_(problem, lives_, deadline),
      chance_(seed) {
  left_out_.fill(problem.size().size());
  patience_.fill(0);
}

std::vector<Rank> SqueakySearch::ranks_of(std::size_t start, const Deadline& deadline) const {
  using Key = std::array<std::int64_t, 3>;
  const std::size_t count = problem_.size().size();
  const std::vector<Bytes> covered = load_covered(lives_, deadline);
  std::vector<Key> keys(count);
  for (std::size_t i = 0; i < count; ++i) {
    deadline.tick();
    const Bytes size = problem_.size()[i];
    const std::int64_t length = lives_.end[i] - lives_.begin[i];
    switch (kBeginning[start].order) {
      case Order::kLoadLength: keys[i] = {-covered[i], -length, -size}; break;
      case Order::kLoadSize: keys[i] = {-covered[i], -size, -length}; break;
      case Order::kSize: keys[i] = {-size, -length, 0}; break;
      case Order::kLength: keys[i] = {-length, -size, 0}; break;
      case Order::kArea: {
        const double area = static_cast<double>(size) * static_cast<double>(length);
        keys[i] = {-static_cast<std::int64_t>(std::min(area, 9e18)), -size, 0};
        break;
      }
      case Order::kBirth: keys[i] = {lives_.begin[i], -size, 0}; break;
    }
  }
  std::vector<Index> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<Index>(i);
  std::sort(order.begin(), order.end(), deadline.ticking([&](Index a, Index b) {
    const Key& of_a = keys[at(a)];
    const Key& of_b = keys[at(b)];
    return of_a != of_b ? of_a < of_b : a < b;
  }));
  std::vector<Rank> ranks(count);
  for (std::size_t p = 0; p < count; ++p) ranks[at(order[p])] = static_cast<Rank>(p) * kRankGap;
  return ranks;
}

// The work that a start may take for repairs at first.
std::int64_t SqueakySearch::patience() const {
  const std::int64_t count = problem_.count();
  return std::min<std::int64_t>(10'000 * count, 500'000) + 1000 * count;
}

bool SqueakySearch::start(std::size_t k, const Deadline& deadline) {
  patience_[k] = patience_[k] == 0 ? patience() : std::min(2 * patience_[k], kMostDoubling * patience());
  Attempt attempt{
      std::vector<Bytes>(problem_.size().size(), kNowhere), ranks_of(k, deadline), {}, bound_, kBeginning[k].fit};
  active_ = false;
  const bool placed = place(attempt, patience_[k], deadline);
  if (!placed) return false;
  left_out_[k] = std::min(left_out_[k], attempt.out.size());
  resume(std::move(attempt), patience_[k], deadline);
  return keep_if_better(repair_.completed(deadline));
}

// Places all by their ranks; what is left out is in attempt.out. False when it gave up.
bool SqueakySearch::place(Attempt& attempt, std::int64_t mending, const Deadline& deadline) {
  std::vector<Index> order = with_bytes(problem_);
  std::sort(order.begin(), order.end(),
            deadline.ticking([&](Index a, Index b) { return attempt.ranks[at(a)] < attempt.ranks[at(b)]; }));
  const std::size_t least_out = *std::min_element(left_out_.begin(), left_out_.end());
  const std::size_t most_out = kFewOut + std::min(8 * std::min(least_out, order.size()), order.size() / 64 + 64);
  std::optional<Placed> placed(std::in_place, problem_, deadline);
  std::size_t count = 0;
  for (const Index i : order) {
    if (planned_) {  // the first plan is made whatever it takes
      if (attempt.out.size() > most_out) return false;
      ++count;
    }
    work_ += kWorkPerStart;
    const auto room = placed->room(i);
    const Bytes offset = (attempt.fit == Fit::kLowest ? lowest_fit : tightest_fit)(room, problem_.alignment(i));
    if (offset <= attempt.target - problem_.size(i)) {
      attempt.offsets[at(i)] = offset;
      placed->add(i, offset);
      continue;
    }
    const std::int64_t before = work();
    if (mend(attempt, i, mending / 2, deadline)) {
      placed.emplace(problem_, deadline);
      for (const Index other : order)
        if (attempt.offsets[at(other)] != kNowhere) placed->add(other, attempt.offsets[at(other)]);
      work_ += kWorkPerStart * static_cast<std::int64_t>(count) / 2;
    } else {
      attempt.out.push_back(i);
    }
    mending -= work() - before;
  }
  return true;
}

// Finds a place for a buffer among those placed so far.
bool SqueakySearch::mend(Attempt& attempt, Index out, std::int64_t work_allowed, const Deadline& deadline) {
  const std::int64_t end = end_of_work(work(), work_allowed);
  for (std::uint64_t run = 1; work() < end && !deadline.passed(); ++run) {
    if (run == 1) {
      repair_.begin(attempt.offsets, {out}, attempt.ranks, attempt.target, attempt.fit, deadline);
    } else {
      repair_.begin_again({out}, attempt.ranks);
    }
    const std::int64_t turns = kTurnsPerRun * luby(run);
    for (std::int64_t turn = 0; turn < turns && work() < end && !deadline.passed(); ++turn) {
      repair_.turn(chance_, deadline);
      if (!repair_.done()) continue;
      attempt.offsets.assign(repair_.offsets().begin(), repair_.offsets().end());
      attempt.ranks.assign(repair_.ranks().begin(), repair_.ranks().end());
      return true;
    }
  }
  return false;
}

bool SqueakySearch::offer(std::span<const Bytes> offsets) {
  return keep_if_better(std::vector<Bytes>(offsets.begin(), offsets.end()));
}

bool SqueakySearch::keep_if_better(std::vector<Bytes> offsets) {
  const Bytes peak = peak_of(problem_, offsets);
  if (planned_ && peak >= peak_) return false;
  planned_ = true;
  peak_ = peak;
  best_ = std::move(offsets);
  return true;
}

void SqueakySearch::resume(Attempt attempt, std::int64_t work_allowed, const Deadline& deadline) {
  repair_.begin(attempt.offsets, std::move(attempt.out), attempt.ranks, attempt.target, attempt.fit, deadline);
  repair_.keep_turns();
  active_ = true;
  descending_ = false;
  slice_end_ = end_of_work(work(), work_allowed);
}

// Repairs the best plan at a target part of the way to the bound.
void SqueakySearch::descend(const Deadline& deadline) {
  const Bytes target = peak_ - std::max<Bytes>(1, (peak_ - bound_) >> halvings_);
  Attempt attempt{best_, ranks_of(0, deadline), {}, target, Fit::kTightest};
  for (const Index i : with_bytes(problem_)) {
    Bytes& offset = attempt.offsets[at(i)];
    if (offset <= target - problem_.size(i)) continue;
    offset = kNowhere;
    attempt.out.push_back(i);
  }
  descent_begin_ = work();
  resume(std::move(attempt), patience(), deadline);
  descending_ = true;
}

// Bolder after a success.
void SqueakySearch::end_descent() {
  descent_work_ += work() - descent_begin_;
  if (repair_.done()) {
    halvings_ = std::max(0, halvings_ - 1);
  } else {
    halvings_ = halvings_ < kMostHalvings ? halvings_ + 1 : 1;
  }
}

// One that has not been made, and one of those that left out least again, in turn.
std::size_t SqueakySearch::next_start() {
  const auto fresh = std::find(patience_.begin(), patience_.end(), 0);
  again_ = !again_ || fresh == patience_.end();
  if (!again_ || fresh == patience_.begin()) return at(fresh - patience_.begin());
  std::array<std::size_t, kStarts> promising;
  std::iota(promising.begin(), promising.end(), std::size_t{0});
  std::stable_sort(promising.begin(), promising.end(),
                   [&](std::size_t a, std::size_t b) { return left_out_[a] < left_out_[b]; });
  return promising[next_again_++ % kPromising];
}

void SqueakySearch::next_attempt(const Deadline& deadline) {
  if (active_ && descending_) end_descent();
  active_ = false;
  if (planned_ && descent_work_ < work() / kDescentShare) {
    descend(deadline);
  } else {
    start(next_start(), deadline);
  }
}

bool SqueakySearch::step(std::int64_t work_allowed, const Deadline& deadline, Bytes enough) {
  const Bytes before = peak_;
  try {
    work_until(end_of_work(work(), work_allowed), deadline, std::max(enough, bound_));
  } catch (const EndedError&) {
  }
  return peak_ < before;
}

void SqueakySearch::work_until(std::int64_t end, const Deadline& deadline, Bytes enough) {
  while (peak_ > enough && work() < end && !deadline.passed()) {
    if (!active_ || repair_.done() || work() >= slice_end_) {
      next_attempt(deadline);
      continue;
    }
    const std::size_t out = repair_.out().size();
    const std::size_t more = chance_.below(kBoldEvery) == 0 ? 1 : 0;
    if (repair_.turn(chance_, deadline, more) && repair_.out().size() < out && repair_.out().size() <= kFewOut)
      keep_if_better(repair_.completed(deadline));
  }
}

}  // namespace memplan
