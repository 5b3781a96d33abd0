// Placement by an order: buffers are placed one after another and never moved.
#pragma once

#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"
#include "placing/placed.hpp"
#include "problem/orders.hpp"

namespace memplan {

// Each buffer of the order takes the offset that fit(room, alignment) names; offsets[i] is set to it. Once the deadline
// passes, the other buffers keep their offsets. O(n r log n) for r separate byte ranges in use at a time.
template <class Fit>
void place_in_order(const Problem& problem, std::span<const Index> order, const Deadline& deadline,
                    std::vector<Bytes>& offsets, Fit&& fit) {
  Placed placed(problem, deadline);
  for (Index i = 0; problem.has_pins() && i < problem.count(); ++i)
    if (problem.pin(i) != kNowhere) offsets[at(i)] = problem.pin(i);
  for (Index i : order) {
    if (problem.pin(i) != kNowhere) continue;
    const Bytes offset = fit(placed.room(i), problem.alignment(i));
    placed.add(i, offset);
    offsets[at(i)] = offset;
  }
}

template <class Fit>
Placement place_in_order(const Problem& problem, std::span<const Index> order, const Deadline& deadline, Fit&& fit) {
  Placement placement;
  placement.offsets.assign(problem.size().size(), 0);
  place_in_order(problem, order, deadline, placement.offsets, fit);
  return placement;
}

}  // namespace memplan
