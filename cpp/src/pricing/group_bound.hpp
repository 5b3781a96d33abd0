// GroupBound: what plans pay at least, from groups of buffers that are too large to lie apart.
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
// Any multipliers y of the last rows and u of the others give a bound: the sum of y (size - capacity), less the
// heaviest forest of each group by weights y bytes - u, less what the u of a pair exceed its price. A subgradient
// method makes it large, for all groups at once. What rounding of floating-point numbers may have added is taken off.
// The rest is rounded up.
//
// O(groups of pairs log pairs) for a round. Guarantee: a bound, however it ends.
#pragma once

#include <cstdint>
#include <span>

#include "base/deadline.hpp"
#include "memplan/pricing.hpp"

namespace memplan {

// What pairs, each once, cost at least within the capacity. `known` is what some plan pays for them.
std::int64_t bound_by_groups(const Problem& problem, std::span<const PairPrice> pairs, Bytes capacity,
                             std::int64_t known, std::uint64_t seed, const Deadline& deadline);

}  // namespace memplan
