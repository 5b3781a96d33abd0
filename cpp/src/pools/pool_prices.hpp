// Pool prices: a lower bound of the cost by Lagrange multipliers, a price per byte for each section of a pool with a
// capacity.
//
// At fixed prices each buffer can be looked at alone: it lies where its cost plus the price of its bytes is least. The
// sum over all buffers, less the worth of the capacities, is a lower bound for any prices >= 0. The best prices give
// the bound of the linear program in which buffers may be cut. Of buffers that are each larger than a k-th of a pool,
// fewer than k lie there at once: this rule has prices too, by sizes rounded down (Gomory 1958). A subgradient method
// looks for good prices (Polyak 1969).
#pragma once

#include <cstdint>
#include <vector>

#include "base/deadline.hpp"
#include "pools/demand.hpp"
#include "pools/pool_problems.hpp"

namespace memplan {

struct PoolPrices {
  double bound = 0;             // of the cost; rounding is taken off
  double rounding = 0;          // that was taken off
  std::vector<double> reduced;  // per buffer and pool: cost and price; infinite if it is refused
  std::vector<double> regret;   // per buffer and pool: reduced, less the least of the buffer
};

// `known` is the cost of a plan, or a guess. O(pools (uses + sections)) for a round.
PoolPrices pool_prices(const PoolProblems& problems, const Demand& demand, double known, int rounds,
                       const Deadline& deadline);

}  // namespace memplan
