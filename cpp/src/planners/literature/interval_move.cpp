// interval_move: places the longest-lived buffer first. Each goes into the tightest gap that holds it. If there is
// none, it goes between two others, and the buffers above move up.
//
//     offset ▲     ┌─────┐              offset ▲     ┌─────┐      of all places, the one that raises the peak least;
//            │ ┌───┤     │                     │     │     │      then the one that pushes least; then the lowest
//            │ │   └─────┘                     │ ┌───┴─────┤
//            │ └───┘                           │ │   │ new │
//            │ ┌─────────┐                     │ ├───┴─────┤
//            └─┴─────────┴──▶ step             └─┴─────────┴──▶ step
//
// A buffer can go up without raising the peak as far as the buffers above it can. It is enough to keep the pairs that
// see each other: at some step of both lives, no other buffer is between them.
//
// Complexity: O(n (n log n + v)) for v pairs that see each other, a few per buffer in layered networks. Guarantee:
// none. Source: MegEngine's INTERVAL_MOVE (static_mem_alloc/interval_move.cpp), where all sizes are rounded up to the
// one alignment. Here they are rounded up to the greatest common divisor of all alignments.
#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "planners/planners.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr Bytes kNotAsked = -1;

class Intervals {
 public:
  Intervals(const Problem& problem, const Deadline& deadline)
      : problem_(problem),
        deadline_(deadline),
        order_(with_bytes(problem)),
        size_(problem.size().begin(), problem.size().end()),
        offset_(size_.size(), 0),
        highest_(size_.size(), kNotAsked),
        pushed_to_(size_.size(), 0),
        above_(size_.size()) {
    Bytes divisor = 0;
    for (Index i : order_) divisor = std::gcd(divisor, problem.alignment(i));
    for (Index i : order_) size_[at(i)] = align_up(size_[at(i)], divisor);
    sort_by_life();
  }

  std::vector<Bytes> place_all() && {
    for (std::size_t placed = 0; placed < order_.size(); ++placed) {
      const Index i = order_[placed];
      find_conflicts(i, std::span(order_).first(placed));
      insert(i);
    }
    return std::move(offset_);
  }

 private:
  // Where a buffer may go: at `offset`, below the conflict at position `below`.
  struct Place {
    Bytes offset;
    std::size_t below;
  };

  Bytes end(Index i) const { return offset_[at(i)] + size_[at(i)]; }
  Bytes aligned(Bytes offset, Index i) const { return align_up(offset, problem_.alignment(i)); }

  void sort_by_life();
  void find_conflicts(Index i, std::span<const Index> placed);
  void insert(Index i);
  std::optional<Place> tightest_gap(Index i) const;
  Place cheapest_push(Index i);
  void find_highest(std::span<const Index> from);
  void find_highest_of(Index i);
  void link(Index i, std::size_t below);
  void push_up(std::span<const Index> from, Bytes to);
  template <class Sequence, class F>
  void for_each_seen(Index i, Sequence&& others, F&& f) const;
  template <class F>
  void for_each_gap(F&& f) const;

  const Problem& problem_;
  const Deadline& deadline_;
  std::vector<Index> order_;
  std::vector<Bytes> size_;  // rounded up
  std::vector<Bytes> offset_;
  std::vector<Bytes> highest_;             // where it could be without raising the peak, kNotAsked until asked for
  std::vector<Bytes> pushed_to_;           // used by push_up
  std::vector<std::vector<Index>> above_;  // per buffer, who is pushed by it
  std::vector<Index> conflicts_;           // of the buffer in turn, by offset
  std::vector<Index> asked_;               // whose highest_ is known
  std::vector<std::pair<Index, std::size_t>> path_;  // used by find_highest_of
  Bytes peak_ = 0;
};

void Intervals::sort_by_life() {
  const auto life = [&](Index i) { return length_of_life(problem_, i); };
  std::stable_sort(order_.begin(), order_.end(), deadline_.ticking([&](Index a, Index b) {
    if (life(a) != life(b)) return life(a) > life(b);
    if (problem_.first(a) != problem_.first(b)) return problem_.first(a) < problem_.first(b);
    return size_[at(a)] > size_[at(b)];
  }));
}

void Intervals::find_conflicts(Index i, std::span<const Index> placed) {
  conflicts_.clear();
  deadline_.tick(1 + placed.size() / 4);
  for (Index other : placed)
    if (problem_.alive_together(i, other)) conflicts_.push_back(other);
  std::sort(conflicts_.begin(), conflicts_.end(), deadline_.ticking([&](Index a, Index b) {
    return offset_[at(a)] != offset_[at(b)] ? offset_[at(a)] < offset_[at(b)] : a < b;
  }));
}

void Intervals::insert(Index i) {
  const std::optional<Place> gap = tightest_gap(i);
  const auto [offset, below] = gap ? *gap : cheapest_push(i);
  offset_[at(i)] = offset;
  peak_ = std::max(peak_, end(i));
  link(i, below);
  push_up(above_[at(i)], end(i));
}

// Calls f(begin, end, below) for the gaps between conflicts and below the peak, empty ones too; `below` is the
// position of the conflict that the gap is below.
template <class F>
void Intervals::for_each_gap(F&& f) const {
  Bytes begin = 0;
  for (std::size_t k = 0; k < conflicts_.size(); ++k) {
    const Index other = conflicts_[k];
    if (offset_[at(other)] >= begin) f(begin, offset_[at(other)], k);
    begin = std::max(begin, end(other));
  }
  f(begin, peak_, conflicts_.size());
}

std::optional<Intervals::Place> Intervals::tightest_gap(Index i) const {
  std::optional<Place> best;
  Bytes least = kMaxBytes;  // bytes left over
  if (conflicts_.empty()) return Place{0, 0};
  for_each_gap([&](Bytes begin, Bytes end, std::size_t below) {
    const Bytes offset = aligned(begin, i);
    if (offset > end - size_[at(i)] || end - size_[at(i)] - offset >= least) return;
    least = end - size_[at(i)] - offset;
    best = Place{offset, below};
  });
  return best;
}

Intervals::Place Intervals::cheapest_push(Index i) {
  find_highest(conflicts_);
  std::vector<Bytes> limit(conflicts_.size() + 1, peak_);  // what may be reached below each without raising the peak
  for (std::size_t k = conflicts_.size(); k-- > 0;) limit[k] = std::min(limit[k + 1], highest_[at(conflicts_[k])]);

  Place best{};
  auto least = std::pair(kMaxBytes, kMaxBytes);  // bytes by which the peak rises, and by which the gap is too small
  for_each_gap([&](Bytes begin, Bytes end, std::size_t below) {
    const Bytes offset = aligned(begin, i);
    const Bytes needed = offset + size_[at(i)];
    const auto cost = std::pair(std::max(Bytes{0}, needed - limit[below]), needed - end);
    if (cost >= least) return;
    least = cost;
    best = {offset, below};
  });
  return best;
}

void Intervals::find_highest(std::span<const Index> from) {
  for (Index i : asked_) highest_[at(i)] = kNotAsked;
  asked_.clear();
  for (Index i : from) find_highest_of(i);
}

// After those above it, depth first.
void Intervals::find_highest_of(Index start) {
  if (highest_[at(start)] != kNotAsked) return;
  path_.assign(1, {start, 0});
  while (!path_.empty()) {
    deadline_.tick();
    auto& [i, next] = path_.back();
    const std::vector<Index>& above = above_[at(i)];
    while (next < above.size() && highest_[at(above[next])] != kNotAsked) ++next;
    if (next < above.size()) {
      path_.emplace_back(above[next], 0);
      continue;
    }
    Bytes limit = peak_;
    for (Index other : above) limit = std::min(limit, highest_[at(other)]);
    limit -= size_[at(i)];
    highest_[at(i)] = limit - limit % problem_.alignment(i);
    asked_.push_back(i);
    path_.pop_back();
  }
}

// Calls f(other) for those of the others, nearest first, that buffer i sees at some step.
template <class Sequence, class F>
void Intervals::for_each_seen(Index i, Sequence&& others, F&& f) const {
  std::vector<std::pair<Step, Step>> open = {{problem_.first(i), problem_.last(i)}};  // steps at which it sees further
  std::vector<std::pair<Step, Step>> rest;
  for (Index other : others) {
    deadline_.tick(open.size());
    const Step first = problem_.first(other), last = problem_.last(other);
    bool seen = false;
    rest.clear();
    for (const auto& [from, to] : open) {
      if (last <= from || to <= first) {
        rest.emplace_back(from, to);
        continue;
      }
      seen = true;
      if (from < first) rest.emplace_back(from, first);
      if (last < to) rest.emplace_back(last, to);
    }
    if (!seen) continue;
    f(other);
    open.swap(rest);
    if (open.empty()) return;
  }
}

// Buffer i, below the conflict at that position and above those before it, pushes and is pushed from now on.
void Intervals::link(Index i, std::size_t below) {
  const auto split = conflicts_.begin() + static_cast<std::ptrdiff_t>(below);
  for_each_seen(i, std::span(split, conflicts_.end()), [&](Index other) { above_[at(i)].push_back(other); });
  std::reverse(conflicts_.begin(), split);
  for_each_seen(i, std::span(conflicts_.begin(), split), [&](Index other) { above_[at(other)].push_back(i); });
}

// Moves those up to `to`, and what they push in turn. From below to above, so that each moves once.
void Intervals::push_up(std::span<const Index> from, Bytes to) {
  using Pushed = std::pair<Bytes, Index>;  // where it is, and who
  std::priority_queue<Pushed, std::vector<Pushed>, std::greater<>> waiting;
  const auto push = [&](Index i, Bytes end) {
    if (offset_[at(i)] >= end) return;
    if (pushed_to_[at(i)] == 0) waiting.emplace(offset_[at(i)], i);
    pushed_to_[at(i)] = std::max(pushed_to_[at(i)], end);
  };
  for (Index i : from) push(i, to);
  while (!waiting.empty()) {
    deadline_.tick();
    const Index i = waiting.top().second;
    waiting.pop();
    offset_[at(i)] = aligned(std::exchange(pushed_to_[at(i)], 0), i);
    peak_ = std::max(peak_, end(i));
    for (Index other : above_[at(i)]) push(other, end(i));
  }
}

}  // namespace

Placement interval_move(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  Placement placement;
  placement.offsets = Intervals(problem, deadline).place_all();
  return placement;
}

}  // namespace memplan
