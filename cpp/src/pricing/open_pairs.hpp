// OpenPairs: the pairs with prices that share bytes in some plans, and not in others.
//
// Buffers that are alive together, or conflict, never share bytes. Two buffers that are pinned, or at a fixed distance,
// share in all plans or in none. All other pairs are open.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memplan/pricing.hpp"
#include "pricing/pair_ranges.hpp"
#include "problem/fold.hpp"

namespace memplan {

struct OpenPairs {
  std::vector<PairPrice> pairs;  // each once, ascending, with its price > 0
  std::vector<PricedPair> flat;  // the same, among buffers of the folded problem
  std::int64_t paid_anyway = 0;  // by pairs that are not open
};

// The problem has no branches. If it has distances, `fold` is its fold, else nullptr. Throws ProblemError as
// cheapest_sharing() says. O(prices log prices).
OpenPairs open_pairs(const Problem& problem, const Fold* fold, std::span<const PairPrice> prices);

// Whether two buffers are alive together or conflict, with all their bytes, or one of them has no bytes.
bool never_share(const Problem& problem, Index a, Index b);

}  // namespace memplan
