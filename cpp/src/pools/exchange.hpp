// Exchange: better pools for all groups, by loads alone. Some groups that are alive at one moment leave their pools.
// They, and others that are cheaper there, get pools again, in another order. The result is kept if it is no dearer,
// and now and then if it is a little dearer.
//
// Ruin and recreate, after Schrimpf et al. 2000. The order is by a ratio, with noise: what a group loses in its next
// pool, over the worth of the bytes that it takes (pool_prices.hpp).
#pragma once

#include <vector>

#include "base/deadline.hpp"
#include "pools/demand.hpp"
#include "pools/pool_prices.hpp"
#include "pools/pool_problems.hpp"

namespace memplan {

// Bytes that are left unused, per pool and section.
using Spared = std::vector<std::vector<Bytes>>;

// The cheapest pools that are found from `start`, whose loads fit beside what is spared; none where `start` does not,
// and what is too much has nowhere else to go. `work` is what may be done, and then what is left. Ends early at a cost
// of `enough`.
std::vector<Index> exchange_pools(const PoolProblems& problems, const Demand& demand, const PoolPrices& prices,
                                  const Spared& spared, std::vector<Index> start, std::int64_t enough,
                                  std::int64_t& work, const Deadline& deadline);

}  // namespace memplan
