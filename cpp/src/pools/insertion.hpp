// Insertion: groups, one after another, into the cheapest pool that has room for them.
#pragma once

#include <vector>

#include "base/deadline.hpp"
#include "pools/assignment.hpp"

namespace memplan {

// Groups of which `kept` is true stay where `start` has them; the others come in the order given. No assignment if a
// group finds no room. Once the deadline has passed, only pools without a capacity are looked at. O(n r log n) for r
// separate byte ranges in use at a time.
Assignment insert_in_order(const PoolProblems& problems, const std::vector<Index>& order, const Assignment& start,
                           const std::vector<char>& kept, const Deadline& deadline);

// The pools that take a group, the cheapest first.
std::vector<Index> cheapest_pools(const PoolProblems& problems, Index group);

}  // namespace memplan
