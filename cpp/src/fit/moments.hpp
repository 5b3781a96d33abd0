// Moments: a lower bound by what is alive while one op k runs, and what it takes to get the rest back.
//
//     minimise    sum of cost(u) z(u)                                z(u) = 1: u runs again after k
//     such that   the bytes alive while op k runs are within the capacity
//                 i is alive then, or made again after k:            for each item i of before k that an op after k
//                 uses the same                                           for each item i that u reads, if z(u) = 1
//
// So it knows that reruns have inputs, which the cover leaves out; but it looks at one op alone. With a price on the
// first inequality, it is a minimum cut. The best of several ops and prices counts.
#pragma once

#include "base/deadline.hpp"
#include "fit/cover.hpp"

namespace memplan {

// At least what any schedule adds; no more than is found before the deadline. O(ops x pauses) and some hundred flows.
double moments_bound(const FitModel& model, const Cover& cover, const Deadline& deadline);

}  // namespace memplan
