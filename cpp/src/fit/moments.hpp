// Moments: a lower bound of the cost. It looks at the bytes alive while one op k runs, and at the cost to make the
// others again.
//
//     minimise    sum of cost(u) z(u)                                z(u) = 1: u runs again after k
//     such that   the bytes alive while op k runs are within the capacity
//                 i is alive then, or made again after k:            for each item i of before k that an op after k
//                 uses the same                                           for each item i that u reads, if z(u) = 1
//
// So it counts the inputs of reruns, which the cover leaves out. But it looks at one op alone. If the first condition
// moves into the cost, at a price, this is a minimum cut. The best of several ops and prices counts.
#pragma once

#include "base/deadline.hpp"
#include "fit/cover.hpp"

namespace memplan {

// A lower bound of the cost that any schedule adds, as high as is found before the deadline. O(ops x pauses) and some
// hundred flows.
double moments_bound(const FitModel& model, const Cover& cover, const Deadline& deadline);

}  // namespace memplan
