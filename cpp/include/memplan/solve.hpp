// Solve: the one way through, from a problem or a graph to a verified plan.
//
//     Graph ─▶ storages ─▶ liveness ─▶ Problem ─▶ planner ─▶ Plan ─▶ verify ─▶ replay
#pragma once

#include <string_view>

#include "memplan/buffers.hpp"
#include "memplan/graph.hpp"
#include "memplan/plan.hpp"
#include "memplan/planner.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// Plans a problem and verifies the result. Throws std::invalid_argument for an unknown planner or bad
// options, UnsupportedError for a feature that the planner lacks, InvalidPlanError if a planner is wrong.
Plan solve(const Problem& problem, std::string_view planner = "auto", const PlanOptions& options = {});

struct GraphPlan {
  Buffers buffers;
  Plan plan;
};

// Plans a graph; the plan is verified on the problem and replayed on the graph.
GraphPlan solve(const Graph& graph, std::string_view planner = "auto", const Place& place = {}, Bytes alignment = 1,
                const PlanOptions& options = {});

// Where every tensor and workspace of a planned graph is, in bytes from the beginning of the arena;
// kNotPlaced for what lives elsewhere.
struct Addresses {
  std::vector<Bytes> tensor;
  std::vector<Bytes> workspace;
};

Addresses addresses_of(const Buffers& buffers, const std::vector<Bytes>& offsets);

}  // namespace memplan
