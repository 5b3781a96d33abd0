// Prices: a lower bound of the cover by Lagrange multipliers, a price per byte for each op that needs too much.
//
// At fixed prices, each unit is on its own: it runs again at the stages where what it frees is worth most, less its
// cost. That is a small dynamic program. Where its items may be fetched, too, it gains no more than both ways together,
// nor than with the cheaper way for each item. What all units gain, taken from the worth of what is too much, is a
// lower bound for any prices >= 0; a subgradient method looks for good ones (Polyak 1969).
#pragma once

#include <vector>

#include "base/deadline.hpp"
#include "fit/cover.hpp"

namespace memplan {

struct Prices {
  std::vector<double> of_op;
  double bound = 0;
};

// `known` is the cost of a schedule, or any guess of the optimum. O(pauses + ops) for a round.
Prices prices_of(const FitModel& model, const Cover& cover, double known, int rounds, const Deadline& deadline);

}  // namespace memplan
