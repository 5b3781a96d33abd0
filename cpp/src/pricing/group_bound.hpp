// GroupBound: a lower bound of the prices that plans pay, from groups of buffers that are too large to lie apart.
//
//     capacity ▲╌╌╌╌╌╌╌┌────┐     Of a group, every two are alive together or
//              │ ┌────┐│    │     have a price. Together they are larger than the
//              │ │    ││    │     capacity: bytes of some lie in others.
//              │ │    │└────┘
//              └─┴────┴─────▶
//
// Go through a group by offset. A buffer overlaps the buffers before it by as many bytes as it overlaps the highest end
// among them. Pair each buffer with the buffer of that end. These pairs form a forest, and overlap by all the bytes
// that are too many. A pair overlaps by no more bytes than its smaller buffer has.
//
// That is a linear program: x is 1 for pairs that share bytes, f is 1 for those in the forest of a group.
//
//     least  sum of price x   where  f <= x  and  sum of bytes f >= size of the group - capacity,  for each group
//
// Any multipliers y of the last rows and u of the others give a bound: the sum of y (size - capacity), minus the
// heaviest forest of each group by weights y bytes - u, minus the amounts by which the u of pairs exceed their prices.
// A subgradient method makes the bound large, for all groups at once. The possible error of floating-point numbers is
// taken off. Then the bound is rounded up.
//
// O(groups of pairs log pairs) for a round. Guarantee: a bound, however it ends.
#pragma once

#include <cstdint>
#include <span>

#include "base/deadline.hpp"
#include "memplan/pricing.hpp"

namespace memplan {

// A lower bound of the cost of these pairs within the capacity. No pair is listed twice. `known` is the cost of some
// plan.
std::int64_t bound_by_groups(const Problem& problem, std::span<const PairPrice> pairs, Bytes capacity,
                             std::int64_t known, std::uint64_t seed, const Deadline& deadline);

}  // namespace memplan
