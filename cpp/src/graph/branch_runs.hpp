// Branch runs: the graphs of single runs of a graph with branches.
#pragma once

#include <vector>

#include "memplan/graph.hpp"

namespace memplan {

// For each branch, a run that takes it; at most kMostRuns runs. So each branch is in some run, unless there are more.
// Ops of other branches are gone, and with them the tensors that they make. Of the layout, excluded tensors and bytes
// that are reserved at all steps remain. A plan of the graph is a plan of each run.
inline constexpr std::size_t kMostRuns = 32;
std::vector<Graph> runs_of(const Graph& graph);

}  // namespace memplan
