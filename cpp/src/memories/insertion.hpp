// Insertion: buffers, one after another, into the cheapest pool that has room for them.
#pragma once

#include <vector>

#include "memories/assignment.hpp"
#include "memplan/memories.hpp"
#include "placing/deadline.hpp"

namespace memplan {

// Buffers of which `kept` is true stay where `start` has them; the others come in the order given. No assignment, where
// a buffer finds no room. O(n r log n) for r separate byte ranges in use at a time.
Assignment insert_in_order(const MemoryRequest& request, const std::vector<Index>& order, const Assignment& start,
                           const std::vector<char>& kept, const Deadline& deadline);

// The pools that take a buffer, the cheapest first.
std::vector<Index> cheapest_pools(const MemoryRequest& request, Index buffer);

// The alignment of a buffer in a pool.
Bytes alignment_in(const MemoryRequest& request, Index buffer, std::size_t pool);

}  // namespace memplan
