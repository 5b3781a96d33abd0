// hill_climb: places buffers in an order, each at the lowest offset where it collides with nothing. Then it swaps two
// buffers in the order, so that the highest one may come down. A swap is kept if the peak does not rise.
//
//     offset ▲      ┌────────┐     3 is the highest buffer. Its conflicts that were placed before it are in its way (1
//            │      │   3    │     and 2). So are their conflicts that were placed before them (0, under 1). One of
//            │ ┌────┴──┐┌────┤     the first kind, and one of either kind, are swapped in the order, and all are placed
//            │ │   1   ││    │     again.
//            │ ├──┬────┘│ 2  │
//            │ │0 │     │    │
//            └─┴──┴─────┴────┴─▶ step
//
// The first order is by size, then by the number of conflicts. Early in the search, a worse plan is accepted now and
// then; the best plan is kept. The search ends at the load or the capacity, after `iterations` swaps, or when
// `placements` buffers have been placed in all. The same seed gives the same plan.
//
// Complexity: O(n r log n) per iteration. Guarantee: none; never above the first order's peak.
// Source: Apache TVM, Unified Static Memory Planner, hill_climb (src/tir/usmp/algo/hill_climb.cc), for the order, the
// swaps and the rule of acceptance. As in Arm Vela's hillclimb_allocation, an equal peak is accepted too. TVM draws the
// second buffer from all pairs of conflicts. Here one conflict is drawn first, so that a draw is O(n).
#include <algorithm>

#include "base/chance.hpp"
#include "memplan/bounds.hpp"
#include "memplan/plan.hpp"
#include "placing/best_so_far.hpp"
#include "placing/in_order.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

using Position = std::size_t;  // in the order
using Positions = std::vector<Position>;

class HillClimb {
 public:
  HillClimb(const Problem& problem, std::uint64_t seed, const Deadline& deadline)
      : problem_(problem), deadline_(deadline), order_(with_bytes(problem)), chance_(seed) {
    const std::vector<std::int64_t> counts = conflict_counts(problem, order_, deadline);
    std::sort(order_.begin(), order_.end(), deadline.ticking([&](Index a, Index b) {
      if (problem.size(a) != problem.size(b)) return problem.size(a) > problem.size(b);
      const std::int64_t of_a = counts[at(a)];
      const std::int64_t of_b = counts[at(b)];
      return of_a != of_b ? of_a > of_b : a < b;
    }));
    current_ = place_in_order(problem, order_, deadline, lowest_fit);
    current_peak_ = peak_of(problem, current_.offsets);
  }

  // Of the order as it is.
  Bytes peak() const { return current_peak_; }
  const Placement& placement() const { return current_; }

  // One swap, if there is one to make.
  void swap_two(std::int64_t iteration) {
    const auto [a, b] = draw_swap();
    if (a == b) return;
    std::swap(order_[a], order_[b]);
    Placement placement = place_in_order(problem_, order_, deadline_, lowest_fit);
    const Bytes peak = peak_of(problem_, placement.offsets);
    if (!accepts(peak, iteration)) {
      std::swap(order_[a], order_[b]);
      return;
    }
    current_ = std::move(placement);
    current_peak_ = peak;
  }

 private:
  bool conflict(Index a, Index b) const { return a != b && problem_.conflict(a, b); }

  // The positions before `end` of what conflicts with the buffer at `of`.
  Positions conflicts_before(Position end, Position of) const {
    Positions found;
    for (Position p = 0; p < end; ++p)
      if (p != of && conflict(order_[p], order_[of])) found.push_back(p);
    return found;
  }

  Positions highest() const {
    Positions found;
    for (Position p = 0; p < order_.size(); ++p)
      if (current_.offsets[at(order_[p])] + problem_.size(order_[p]) == current_peak_) found.push_back(p);
    return found;
  }

  Position draw(const Positions& from) { return from[chance_.below(from.size())]; }

  // Two positions to swap; equal when there is nothing to gain from the highest buffer drawn.
  std::pair<Position, Position> draw_swap() {
    const Position top = draw(highest());
    const Positions first = conflicts_before(top, top);
    if (first.empty()) return {0, 0};
    const Position a = draw(first);
    const Position between = draw(conflicts_before(order_.size(), top));
    const Positions second = conflicts_before(between, between);
    const bool from_second = !second.empty() && chance_.below(100) >= 25;
    return {a, draw(from_second ? second : first)};
  }

  // A plan that is worse by a share x is taken with probability x / 2 / iteration, in whole percents.
  bool accepts(Bytes peak, std::int64_t iteration) {
    if (peak <= current_peak_) return true;
    const Bytes worse = peak - current_peak_;
    const Bytes percent = (worse > kMaxBytes / 50 ? worse / (peak / 50) : 50 * worse / peak) / iteration;
    return static_cast<Bytes>(chance_.below(100)) < percent;
  }

  const Problem& problem_;
  const Deadline& deadline_;
  std::vector<Index> order_;
  Chance chance_;
  Placement current_;
  Bytes current_peak_ = 0;
};

}  // namespace

Placement hill_climb(const Problem& problem, const PlanOptions& options) {
  const Bytes enough = options.enough(load(problem));
  const auto buffers = std::max<std::int64_t>(1, problem.count());
  const std::int64_t iterations = std::min(options.get(kHillClimb[0]), options.get(kHillClimb[1]) / buffers);
  return best_so_far(problem, options, [&](Placement& best, const Deadline& deadline) {
    HillClimb search(problem, options.seed, deadline);
    Bytes peak = search.peak();
    const auto keep = [&] {
      best = search.placement();
      peak = search.peak();
      options.tell({best.offsets, peak});
    };
    keep();
    for (std::int64_t k = 1; k <= iterations && peak > enough; ++k) {
      deadline.check();
      search.swap_two(k);
      if (search.peak() < peak) keep();
    }
  });
}

}  // namespace memplan
