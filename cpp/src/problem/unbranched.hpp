// Unbranched: a problem with branches as a problem without branches. If two buffers live at one time, but no run has
// both, one of them moves to a step of its own after the last. It conflicts with all buffers that it meets in some run.
//
//     then  ┌────┐                ┌────┐
//     else  └┌───┴┐    ─▶         └────┘   ┌──┐   else: a step of its own; not in conflict with then
//     x   ┌──┴────┴─┐           ┌─────────┐└──┘   x conflicts with both
//         └─────────┘           └─────────┘
#pragma once

#include "memplan/problem.hpp"

namespace memplan {

// The same buffers, with the same plans. Its load is that of one run. O(n log n), and pairs that live at one time, of
// which one is in a branch.
Problem without_branches(const Problem& problem);

}  // namespace memplan
