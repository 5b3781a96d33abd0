// Placement by an order: buffers are placed one after another and never moved. Most greedy planners are an order and
// a fit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memplan/planner.hpp"
#include "placing/deadline.hpp"
#include "placing/placed.hpp"

namespace memplan {

// The buffers that have bytes, by index; the others are at offset 0 wherever.
std::vector<Index> with_bytes(const Problem& problem);

// Per buffer with bytes, the number of others with bytes that it must be apart from; `buffers` are those with bytes.
// O(n log n + conflicts beyond lifetimes).
std::vector<std::int64_t> conflict_counts(const Problem& problem, std::span<const Index> buffers);

// Each buffer of the order takes the offset that fit(room, alignment) names; nothing if the deadline passes before
// all are placed. O(n r log n) for r separate byte ranges in use at a time.
template <class Fit>
std::optional<Placement> place_in_order(const Problem& problem, std::span<const Index> order, Fit&& fit,
                                        const Deadline& deadline = Deadline()) {
  constexpr std::size_t kBetweenLooks = 256;  // buffers placed between two looks at the clock
  Placement placement;
  placement.offsets.assign(problem.size().size(), 0);
  Placed placed(problem);
  std::size_t count = 0;
  for (Index i : order) {
    if (++count % kBetweenLooks == 0 && deadline.passed()) return std::nullopt;
    const Bytes offset = fit(placed.room(i), problem.alignment(i));
    placement.offsets[at(i)] = offset;
    placed.add(i, offset);
  }
  return placement;
}

}  // namespace memplan
