// CheapestSet: a core is a set of things with prices. Which is the cheapest set that has one thing of each core? This
// is a minimum hitting set.
//
// Depth first: the next core is the one with the fewest things left. A thing that one branch takes, the next branches
// refuse. Take cores that have nothing in common: the sum of their cheapest things is a bound, which ends branches.
// Exponential; exact up to 20,000 branches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace memplan {

struct CheapestSet {
  std::vector<char> taken;  // per thing; hits every core
  std::int64_t bound = 0;   // no such set is cheaper; except in hard cases, the price of this set
};

// Cores are positions of things. No core is empty.
CheapestSet cheapest_set(const std::vector<std::vector<std::size_t>>& cores, std::span<const std::int64_t> price);

}  // namespace memplan
