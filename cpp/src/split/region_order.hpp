// The order in which ops and regions of a graph run, if each region runs as one.
#pragma once

#include <vector>

#include "memplan/graph.hpp"

namespace memplan {

// Ops by number, and regions by number behind them. A region comes as late as its last op, all else in the given order.
// `region_of`: per op, kNone for those that run alone. Throws RegionError if regions and ops wait for each other. O((ops
// + waits) log ops).
std::vector<Index> order_with_regions(const Graph& graph, const std::vector<Index>& region_of, std::size_t regions);

}  // namespace memplan
