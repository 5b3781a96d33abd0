// Exchange: better pools for all groups, by loads alone. Some groups that are alive at one moment leave their pools.
// These groups, and others that are cheaper in those pools, get pools again, in another order. The result is kept if it
// is no dearer, and now and then if it is a little dearer.
//
// Ruin and recreate, after Schrimpf et al. 2000. The order is by a ratio, with noise: the cost that a group adds in its
// next pool, divided by the worth of its bytes (pool_prices.hpp).
#pragma once

#include <vector>

#include "base/deadline.hpp"
#include "pools/demand.hpp"
#include "pools/pool_prices.hpp"
#include "pools/pool_problems.hpp"

namespace memplan {

// Bytes that are left unused, per pool and section.
using Spared = std::vector<std::vector<Bytes>>;

// The cheapest pools that are found from `start`, whose loads fit beside the spared bytes. No value if `start` does not
// fit, and the groups that are too much can go nowhere else. `work` is the work that may be done; afterwards, the work
// that is left. Ends early at a cost of `enough`.
std::vector<Index> exchange_pools(const PoolProblems& problems, const Demand& demand, const PoolPrices& prices,
                                  const Spared& spared, std::vector<Index> start, std::int64_t enough,
                                  std::int64_t& work, const Deadline& deadline);

}  // namespace memplan
