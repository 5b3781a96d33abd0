// greedy_by_conflicts: places the buffer that conflicts with most others first. Ties: the larger, then index.
//
//     offset ▲             ┌───┐       fit=top: on top of every buffer placed so far that it conflicts with, though
//            │ ┌───┐       │ 2 │       there be room below, as TVM does it (2 lies above 1, which is in its way, and
//            │ │ 1 └───────┴───┤       the gap below 1 stays empty)
//            │ └───┬───────────┘
//            │ ┌───┴───┐             fit=lowest: at the lowest offset where it collides with nothing
//            └─┴───────┴───────▶ step
//
// Zero-size buffers conflict with nothing. Shapes count as whole buffers in the order, part by part in the fit.
//
// Complexity: O(n r log n). Guarantee: none.
// Source: Apache TVM, Unified Static Memory Planner, greedy_by_conflicts (src/tir/usmp/algo/greedy.cc). There ties end
// at the buffer's name and a buffer may choose among several bounded pools; here there is one, without a bound.
#include <algorithm>

#include "placing/in_order.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

Bytes on_top(std::span<const OffsetRange> room, Bytes alignment) { return align_up(room.back().lowest, alignment); }

}  // namespace

Placement greedy_by_conflicts(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  std::vector<Index> order = with_bytes(problem);
  const std::vector<std::int64_t> counts = conflict_counts(problem, order, deadline);
  std::sort(order.begin(), order.end(), deadline.ticking([&](Index a, Index b) {
    const std::int64_t of_a = counts[at(a)];
    const std::int64_t of_b = counts[at(b)];
    if (of_a != of_b) return of_a > of_b;
    return problem.size(a) != problem.size(b) ? problem.size(a) > problem.size(b) : a < b;
  }));
  const bool top = options.get(kGreedyByConflicts[0]) == 0;
  return place_in_order(problem, order, deadline, top ? on_top : lowest_fit);
}

}  // namespace memplan
