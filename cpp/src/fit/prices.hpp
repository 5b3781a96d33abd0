// Prices: a lower bound of the cover by Lagrange multipliers, a price per byte for each op that needs too much.
//
// At fixed prices, each unit can be looked at alone. It runs again at the stages where the bytes that it frees are
// worth most, less its cost: a small dynamic program finds this gain. If its items may be fetched too, it gains no more
// than by both ways together, and no more than by the cheaper way for each item. The worth of all bytes above the
// capacity, less the gains of all units, is a lower bound for any prices >= 0. A subgradient method looks for good
// prices (Polyak 1969).
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
