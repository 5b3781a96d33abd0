// Assignment: the search for pools and places.
//
//     insertion      each buffer into the cheapest pool with room for it, those first that lose most in another pool
//     sweep          pools in the order of births: exact for loads if few buffers are alive at once
//     exchange       some buffers leave their pools, and others take their room; bytes stay free if placing has failed
//     tree           pools buffer by buffer, cut by prices and loads; a planner places each complete choice
//     mending        buffers that the planner leaves above a capacity go to another pool, and others come back
//
// The tree is exact if it is searched to its end, and the planner proves each choice that it cannot place.
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
  std::vector<Index> pool;    // per group; empty if no assignment was found
  std::vector<Bytes> offset;  // per group, for pools with a capacity
  std::int64_t cost = kNoCost;
  Bytes peaks = kMaxBytes;  // of the pools without a capacity, summed up, if they were compared
  std::int64_t bound = 0;   // no plan costs less; kNoCost: there is no plan
};

// The best assignment that is found with so much work.
Assignment search_assignment(const PoolProblems& problems, const Demand& demand, PoolPlacer& placer, std::int64_t work,
                             const Deadline& deadline);

}  // namespace memplan
