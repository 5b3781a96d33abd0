// Exchange: better pools for all wholes, by loads alone: some that are alive at one moment leave their pools, and they
// and others that would rather lie there go back in another order. What is no dearer is kept, and a little that is.
//
// Ruin and recreate, after Schrimpf et al. 2000; the order is by what a whole loses in its next pool for the worth of
// the bytes that it takes (memory_prices.hpp), with noise.
#pragma once

#include <vector>

#include "base/deadline.hpp"
#include "pools/demand.hpp"
#include "pools/memory_prices.hpp"
#include "pools/wholes.hpp"

namespace memplan {

// Bytes that are left unused, per pool and section.
using Spared = std::vector<std::vector<Bytes>>;

// The cheapest pools that are found from `start`, whose loads fit beside what is spared; none where `start` does not,
// and what is too much has nowhere else to go. `work` is what may be done, and then what is left. Ends early at a cost
// of `enough`.
std::vector<Index> exchange_pools(const Wholes& wholes, const Demand& demand, const MemoryPrices& prices,
                                  const Spared& spared, std::vector<Index> start, std::int64_t enough,
                                  std::int64_t& work, const Deadline& deadline);

}  // namespace memplan
