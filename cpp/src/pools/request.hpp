// Pools request: the input of the search for pools: buffers, pools, and the cost of each buffer in each pool.
#pragma once

#include <cstdint>
#include <vector>

#include "memplan/pools.hpp"

namespace memplan {

inline constexpr std::int64_t kRefused = -1;  // the cost of a buffer in a pool that does not take it

struct PoolsRequest {
  Problem problem;  // without pins and reserved bytes: each of these belongs to a pool
  std::vector<Pool> pools;
  std::vector<std::int64_t> cost;  // of buffer i in pool p, >= 0 or kRefused: cost[i * pools.size() + p]
  std::vector<PinInPool> pins = {};

  std::int64_t cost_of(Index buffer, std::size_t pool) const { return cost[at(buffer) * pools.size() + pool]; }
};

}  // namespace memplan
