#include "search/ejection/ejection_search.hpp"

#include <algorithm>

#include "memplan/plan.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr double kFirstStep = 0.1, kLeastStep = 0.002;
constexpr double kShorterStep = 0.7;  // after a run in vain
constexpr std::int64_t kMovesPerBuffer = 200;
constexpr std::int64_t kLongerTenths = 12;  // the next run may be longer by so much
constexpr std::int64_t kMostMoves = std::int64_t{1} << 40;
constexpr std::int64_t kLooksAtOnce = 4;
constexpr std::int64_t kWorkPerMove = 16;

}  // namespace

EjectionSearch::EjectionSearch(const Problem& problem, std::uint64_t seed, const Deadline& deadline)
    : problem_(problem),
      placed_(problem, deadline),
      chance_(seed),
      most_moves_(kMovesPerBuffer * std::max<std::int64_t>(problem.count(), 1)),
      share_(kFirstStep) {}

bool EjectionSearch::step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) {
  const std::int64_t end = end_of_work(work_, work);
  if (best.peak < best_peak_) {
    best_.assign(best.offsets.begin(), best.offsets.end());
    best_peak_ = best.peak;
    running_ = running_ && target_ < best.peak;
  }
  while (best_peak_ > enough && work_ < end && !deadline.passed()) {
    if (!running_) begin(enough);
    if (pool_.empty()) {
      keep(deadline);
    } else if (moves_ == most_moves_) {
      give_up();
    } else {
      move();
    }
  }
  return best_peak_ < best.peak;
}

// A run from the best plan: what ends above the target is in the pool.
void EjectionSearch::begin(Bytes enough) {
  const Bytes gap = best_peak_ - enough;
  target_ = best_peak_ - std::max<Bytes>(1, static_cast<Bytes>(static_cast<double>(gap) * share_));
  penalty_.assign(best_.size(), 1);
  placed_.clear();
  pool_.clear();
  for (const Index i : with_bytes(problem_)) {
    if (best_[at(i)] + problem_.size(i) <= target_) {
      placed_.add(i, best_[at(i)]);
    } else {
      pool_.push_back(i);
    }
  }
  work_ += problem_.count();
  moves_ = 0;
  ++runs_;
  running_ = true;
}

void EjectionSearch::give_up() {
  running_ = false;
  share_ = std::max(kLeastStep, share_ * kShorterStep);
  most_moves_ = std::min(kMostMoves, most_moves_ * kLongerTenths / 10);
}

void EjectionSearch::move() {
  ++moves_;
  const Index i = take_from_pool();
  const Place place = cheapest(i);
  if (place.penalty > 0) {
    ++penalty_[at(i)];
    eject_from(place.offset);
  }
  placed_.add(i, place.offset);
}

Index EjectionSearch::take_from_pool() {
  std::size_t taken = chance_.below(pool_.size());
  if (runs_ % 2 == 0)
    for (std::size_t k = 0; k < pool_.size(); ++k)
      if (problem_.size(pool_[k]) > problem_.size(pool_[taken])) taken = k;
  const Index i = pool_[taken];
  pool_[taken] = pool_.back();
  pool_.pop_back();
  return i;
}

// Where what is in the way has the least penalty.
EjectionSearch::Place EjectionSearch::cheapest(Index i) {
  placed_.look(i);
  const auto ranges = placed_.ranges();
  const auto ends = placed_.ends();
  work_ += kWorkPerMove + (placed_.looked_at() + 4 * static_cast<std::int64_t>(ranges.size())) / kLooksAtOnce;
  const Bytes alignment = problem_.alignment(i), top = align_down(target_ - problem_.size(i), alignment);
  Place best{0, std::numeric_limits<std::int64_t>::max()};
  std::size_t ties = 0, entered = 0, left = 0;
  std::int64_t penalty = 0;
  const auto sweep_to = [&](Bytes offset) {
    for (; entered < ranges.size() && ranges[entered].after < offset; ++entered)
      penalty += penalty_[at(ranges[entered].buffer)];
    for (; left < ends.size() && ends[left].offset <= offset; ++left) penalty -= penalty_[at(ends[left].buffer)];
  };
  const auto propose = [&](Bytes offset) {
    sweep_to(offset);
    if (penalty > best.penalty || (penalty == best.penalty && chance_.below(++ties) > 0)) return;
    if (penalty < best.penalty) ties = 1;
    best = {offset, penalty};
  };
  propose(0);
  for (std::size_t k = 0; k < ends.size(); ++k) {
    const Bytes offset = align_up(std::max<Bytes>(0, ends[k].offset), alignment);
    if (offset > top) break;
    if (k + 1 == ends.size() || ends[k + 1].offset != ends[k].offset) propose(offset);
  }
  entered = left = 0;
  penalty = 0;
  for (const Obstacles::Range& range : ranges) {
    if (range.after < 0) continue;
    const Bytes offset = align_down(range.after, alignment);
    if (offset > top) break;
    propose(offset);
  }
  propose(top);
  return best;
}

void EjectionSearch::eject_from(Bytes offset) {
  const std::size_t before = pool_.size();
  for (const Obstacles::Range& range : placed_.ranges())
    if (range.after < offset && offset < range.before) pool_.push_back(range.buffer);
  for (std::size_t k = before; k < pool_.size(); ++k) placed_.remove(pool_[k]);
}

// All are placed below the target.
void EjectionSearch::keep(const Deadline& deadline) {
  running_ = false;
  const auto take = [&] {
    for (Index i = 0; i < problem_.count(); ++i) best_[at(i)] = std::max<Bytes>(0, placed_.offset(i));
    best_peak_ = peak_of(problem_, best_);
  };
  take();
  push_down(deadline);
  if (pool_.empty()) take();
}

// From below, each buffer to the lowest offset that is free; where the deadline passes, the pool has some.
void EjectionSearch::push_down(const Deadline& deadline) {
  std::vector<Index> order = with_bytes(problem_);
  std::sort(order.begin(), order.end(),
            [&](Index a, Index b) { return best_[at(a)] != best_[at(b)] ? best_[at(a)] < best_[at(b)] : a < b; });
  placed_.clear();
  for (const Index i : order) {
    if (deadline.passed()) {
      pool_.push_back(i);
      return;
    }
    placed_.look(i);
    work_ += 1 + placed_.looked_at() / kLooksAtOnce;
    placed_.add(i, placed_.lowest(i));
  }
}

}  // namespace memplan
