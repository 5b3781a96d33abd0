// greedy_by_size: the largest buffer first; each takes the tightest gap between the buffers placed so far that
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

#include "memplan/occupancy.hpp"
#include "planners.hpp"

namespace memplan {

namespace {

// Where the tightest gap between the taken ranges that holds the buffer begins, or the end of the last one.
Bytes tightest_gap(std::span<const ByteRange> taken, Bytes size, Bytes alignment) {
  Bytes best = -1;
  Bytes best_room = kMaxBytes;
  Bytes top = 0;
  for (const ByteRange& range : taken) {
    const Bytes offset = align_up(top, alignment);
    const Bytes room = range.begin - top;
    if (offset <= range.begin && range.begin - offset >= size && room < best_room) {
      best = offset;
      best_room = room;
    }
    top = range.end;
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

std::optional<Placement> greedy_by_size_until(const Problem& problem, const Deadline& deadline) {
  constexpr std::size_t kBetweenLooks = 256;  // buffers placed between two looks at the clock
  Placement placement;
  placement.offsets.assign(problem.size().size(), 0);
  Occupancy placed(problem);
  std::size_t count = 0;
  for (Index i : by_size(problem)) {
    if (++count % kBetweenLooks == 0 && deadline.passed()) return std::nullopt;
    const Bytes offset = tightest_gap(placed.taken(i), problem.size(i), problem.alignment(i));
    placement.offsets[static_cast<std::size_t>(i)] = offset;
    placed.add(i, offset);
  }
  return placement;
}

Placement greedy_by_size(const Problem& problem, const PlanOptions&) {
  return *greedy_by_size_until(problem, Deadline(std::nullopt));
}

}  // namespace memplan
