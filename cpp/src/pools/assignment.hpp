// Assignment: the search for pools and places.
//
//     insertion      the buffers with the most to lose first, each into the cheapest pool with room for it
//     sweep          pools in the order of births: exact for loads where few buffers are alive at once
//     exchange       from there, some leave and others take their room; bytes are spared where a placement has failed
//     tree           pools buffer by buffer, cut by prices and loads; a planner places what is complete
//     mending        what the planner leaves above a capacity goes elsewhere, and what then has room comes back
//
// The tree is exact where it is searched to its end and the planner proves what it cannot place.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/deadline.hpp"
#include "pools/demand.hpp"
#include "pools/pool_placer.hpp"
#include "pools/pool_prices.hpp"
#include "pools/pool_problems.hpp"

namespace memplan {

inline constexpr std::int64_t kNoCost = std::numeric_limits<std::int64_t>::max();

struct Assignment {
  std::vector<Index> pool;    // per group; empty where none was found
  std::vector<Bytes> offset;  // per group, for pools with a capacity
  std::int64_t cost = kNoCost;
  Bytes peaks = kMaxBytes;  // of the pools without a capacity, summed up, where they were compared
  std::int64_t bound = 0;   // no plan costs less; kNoCost: there is none
};

// The best that is found with so much work.
Assignment search_assignment(const PoolProblems& problems, const Demand& demand, PoolPlacer& placer, std::int64_t work,
                             const Deadline& deadline);

}  // namespace memplan
