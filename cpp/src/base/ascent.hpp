// Ascent: prices >= 0 that make a concave bound large, by a subgradient method (Polyak 1969).
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/deadline.hpp"

namespace memplan {

// The best bound of so many rounds, beginning at these prices. `pricing.bound(price)` is the bound at some prices;
// afterwards, `pricing.slope(k)` says how it grows with price k. `known` is a guess of the largest bound.
template <class Pricing>
std::vector<double> ascend(Pricing& pricing, std::vector<double> price, double known, int rounds,
                           const Deadline& deadline) {
  std::vector<double> best = price;
  double highest = 0, step = 1;
  int since = 0;
  try {
    for (int round = 0; round < rounds; ++round) {
      deadline.check();
      const double bound = pricing.bound(price);
      if (bound > highest) {
        if (bound > highest * (1 + 1e-4)) since = 0;
        best = price;
        highest = bound;
      }
      if (++since >= 20) {
        step *= 0.6;
        since = 0;
        price = best;
        pricing.bound(price);
        if (step < 1e-4) break;
      }
      double square = 0;
      for (std::size_t k = 0; k < price.size(); ++k) {
        const double slope = pricing.slope(k);
        if (price[k] > 0 || slope > 0) square += slope * slope;
      }
      if (square == 0) break;
      const double length = step * std::max(known * 1.02 - bound, 1e-3 * known) / square;
      for (std::size_t k = 0; k < price.size(); ++k) price[k] = std::max(0.0, price[k] + length * pricing.slope(k));
    }
  } catch (const EndedError&) {
  }
  return best;
}

// The same from prices of 0.
template <class Pricing>
std::vector<double> ascend(Pricing& pricing, std::size_t prices, double known, int rounds, const Deadline& deadline) {
  return ascend(pricing, std::vector<double>(prices, 0), known, rounds, deadline);
}

}  // namespace memplan
