// Fixed bound: a lower bound of the peak that counts pinned buffers and reserved bytes.
//
//     offset ▲ ┌────┐    Look at one step. A gap between fixed bytes takes buffers that are no larger than it, and
//            │ │####│    together no more bytes than it has. What the gaps do not take lies above them.
//            │ └────┘ ◀─ a gap
//            │ │####│
//            └─┴────┴─▶ step
//
// So each step has a least address below which all its buffers may have room. The bound is the highest of these
// addresses.
#pragma once

#include "memplan/problem.hpp"

namespace memplan {

// The problem has no branches and distances. O(n log n), and the fixed ranges of each step whose load may raise it.
Bytes fixed_bound(const Problem& problem);

}  // namespace memplan
