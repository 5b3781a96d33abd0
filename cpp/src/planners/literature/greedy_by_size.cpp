// greedy_by_size: places the largest buffer first. Each buffer takes the tightest gap between the placed buffers that
// are alive with it, or goes on top of them. Ties: earlier birth, then index.
//
//     offset ▲  ┌───────────┐          gaps over the new buffer's lifetime: below, between and above what is
//            │  └───────────┘          placed there; the tightest that fits wins, the lowest among equals
//            │     gap  ┌──────┐
//            │ ┌──────┐ └──────┘
//            └─┴──────┴──────────▶ step
//
// Complexity: O(n r log n) for r separate byte ranges in use at a time; r is small where plans are dense.
// Guarantee: none.
// Source: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020, "greedy by size
// for offset calculation"; the planner of TFLite, TFLM and IREE.
#include <algorithm>

#include "placing/in_order.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

std::vector<Index> by_size_and_birth(const Problem& problem, const Deadline& deadline) {
  std::vector<Index> order = with_bytes(problem);
  std::sort(order.begin(), order.end(), deadline.ticking([&](Index a, Index b) {
    if (problem.size(a) != problem.size(b)) return problem.size(a) > problem.size(b);
    return problem.first(a) != problem.first(b) ? problem.first(a) < problem.first(b) : a < b;
  }));
  return order;
}

}  // namespace

Placement greedy_by_size_until(const Problem& problem, const Deadline& deadline) {
  return place_in_order(problem, by_size_and_birth(problem, deadline), deadline, tightest_fit);
}

Placement greedy_by_size(const Problem& problem, const PlanOptions& options) {
  return greedy_by_size_until(problem, Deadline(options));
}

}  // namespace memplan
