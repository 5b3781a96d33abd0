// What no plan of a problem goes below because of what is pinned and reserved.
//
//     offset ▲ ┌────┐    A gap between what is fixed at a step takes no more than it has bytes, and of what is alive
//            │ │####│    then only what is no larger than it. What all gaps do not take is above them.
//            │ └────┘ ◀─ a gap
//            │ │####│
//            └─┴────┴─▶ step
//
// The bound is the highest, over all steps, of the lowest address below which the gaps take what is alive then.
#pragma once

#include "memplan/problem.hpp"

namespace memplan {

// Of a problem without branches and distances. O(n log n), and the fixed ranges of each step whose load may raise it.
Bytes fixed_bound(const Problem& problem);

}  // namespace memplan
