// CheapestSet: of things with prices, the cheapest set that has one of each core: a minimum hitting set.
//
// Depth first, on the core of the fewest things that is left; what one branch takes, the next ones refuse. A branch
// ends where the cheapest things of cores that have none in common cost too much. Exponential; exact up to 20,000
// branches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace memplan {

struct CheapestSet {
  std::vector<char> taken;  // per thing; hits every core
  std::int64_t bound = 0;   // no such set is cheaper; the price of this one, but in hard cases
};

// Cores are positions of things, and none is empty.
CheapestSet cheapest_set(const std::vector<std::vector<std::size_t>>& cores, std::span<const std::int64_t> price);

}  // namespace memplan
