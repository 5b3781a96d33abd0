// Insertion: wholes, one after another, into the cheapest pool that has room for them.
#pragma once

#include <vector>

#include "base/deadline.hpp"
#include "pools/assignment.hpp"

namespace memplan {

// Wholes of which `kept` is true stay where `start` has them; the others come in the order given. No assignment, where
// a whole finds no room. Once the deadline has passed, only pools without a capacity have any. O(n r log n) for r
// separate byte ranges in use at a time.
Assignment insert_in_order(const Wholes& wholes, const std::vector<Index>& order, const Assignment& start,
                           const std::vector<char>& kept, const Deadline& deadline);

// The pools that take a whole, the cheapest first.
std::vector<Index> cheapest_pools(const Wholes& wholes, Index whole);

}  // namespace memplan
