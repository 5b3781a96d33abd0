// Sweep: pools for all groups in the order of their births, so that loads fit and the cost is the least.
//
// Later choices depend only on the pools of the buffers that are alive now. So of all choices that agree on these
// pools, the cheapest is kept. If few buffers are alive at once, as in most networks without a backward pass, that is
// exact for loads. Otherwise the choices that lose most are dropped. The least cost that one of these could have
// reached is a bound.
#pragma once

#include <cstdint>
#include <vector>

#include "base/deadline.hpp"
#include "pools/demand.hpp"
#include "pools/pool_prices.hpp"
#include "pools/pool_problems.hpp"

namespace memplan {

struct Sweep {
  std::vector<Index> pool;  // per buffer; empty if nothing was found
  double dropped = 0;       // the least regret of a dropped choice; infinite if none was dropped
  std::int64_t work = 0;
};

// Keeps at most `width` choices at a time, and no choice that loses `most` or more. O(buffers width alive).
Sweep sweep_pools(const PoolProblems& problems, const Demand& demand, const PoolPrices& prices, std::size_t width,
                  double most, const Deadline& deadline);

}  // namespace memplan
