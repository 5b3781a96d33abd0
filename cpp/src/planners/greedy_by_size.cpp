// greedy_by_size: the largest buffer first; each takes the tightest gap between the buffers placed so far that
// are alive with it, or goes on top of them. Ties: earlier birth, then index.
//
//     offset ▲  ┌───────────┐          gaps over the new buffer's lifetime: below, between and above what is
//            │  └───────────┘          placed there; the tightest that fits wins, the lowest among equals
//            │     gap  ┌──────┐
//            │ ┌──────┐ └──────┘
//            └─┴──────┴──────────▶ step
//
// Complexity: O((n + k) log n) for k pairs of buffers that overlap in time. Guarantee: none.
// Source: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020, "greedy by size
// for offset calculation"; the planner of TFLite, TFLM and IREE.
#include <algorithm>
#include <numeric>

#include "memplan/overlap.hpp"
#include "planners.hpp"

namespace memplan {

namespace {

struct Range {
  Bytes begin;
  Bytes end;
  bool operator<(const Range& other) const { return begin < other.begin; }
};

// Where the tightest gap that holds the buffer begins; `used` is sorted, its ranges may overlap.
Bytes tightest_gap(const std::vector<Range>& used, Bytes size, Bytes alignment) {
  Bytes best = -1;
  Bytes best_room = kMaxBytes;
  Bytes top = 0;
  for (const Range& range : used) {
    const Bytes offset = align_up(top, alignment);
    const Bytes room = range.begin - top;
    if (offset <= range.begin && range.begin - offset >= size && room < best_room) {
      best = offset;
      best_room = room;
    }
    top = std::max(top, range.end);
  }
  return best >= 0 ? best : align_up(top, alignment);
}

std::vector<Index> by_size(const Problem& problem) {
  std::vector<Index> order;
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.size(i) > 0) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](Index a, Index b) {
    if (problem.size(a) != problem.size(b)) return problem.size(a) > problem.size(b);
    return problem.first(a) != problem.first(b) ? problem.first(a) < problem.first(b) : a < b;
  });
  return order;
}

}  // namespace

Placement greedy_by_size(const Problem& problem, const PlanOptions&) {
  Placement placement;
  placement.offsets.assign(problem.size().size(), 0);
  OverlapIndex placed(problem);
  std::vector<Range> used;
  for (Index i : by_size(problem)) {
    used.clear();
    placed.for_each_overlapping(problem.first(i), problem.last(i), [&](Index other) {
      const Bytes begin = placement.offsets[static_cast<std::size_t>(other)];
      used.push_back({begin, begin + problem.size(other)});
    });
    std::sort(used.begin(), used.end());
    placement.offsets[static_cast<std::size_t>(i)] = tightest_gap(used, problem.size(i), problem.alignment(i));
    placed.mark(i);
  }
  return placement;
}

}  // namespace memplan
