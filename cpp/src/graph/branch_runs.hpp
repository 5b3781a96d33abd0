// Branch runs: graphs of what single runs of a graph with branches do.
#pragma once

#include <vector>

#include "memplan/graph.hpp"

namespace memplan {

// For each branch a run that takes it, up to kMostRuns; together all branches are in some run where they are as many.
// Ops of other branches are gone, and with them the tensors that they make. What is asked of places is gone too, but
// for tensors that are excluded. A plan of the graph is one of each run.
inline constexpr std::size_t kMostRuns = 32;
std::vector<Graph> runs_of(const Graph& graph);

}  // namespace memplan
