// Solve: the one way through, from a problem or a graph to a verified plan.
//
//     Graph ─▶ storages ─▶ liveness ─▶ Problem ─▶ planner ─▶ Plan ─▶ verify ─▶ replay
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "memplan/buffers.hpp"
#include "memplan/graph.hpp"
#include "memplan/plan.hpp"
#include "memplan/planner.hpp"
#include "memplan/problem.hpp"
#include "memplan/replay.hpp"

namespace memplan {

// Plans a problem and verifies the result. Throws std::invalid_argument for an unknown planner or bad
// options, UnsupportedError for a feature that the planner lacks, InvalidPlanError if a planner is wrong.
Plan solve(const Problem& problem, std::string_view planner = "auto", const PlanOptions& options = {});

// The plan that a planner's placement makes of a problem, verified; `asked` is the planner with its parameters as it
// was asked for. Throws InvalidPlanError that names the planner when the placement breaks the problem.
Plan judge(const Problem& problem, Placement placement, std::string_view planner, std::string_view asked,
           double seconds);

struct GraphPlan {
  Buffers buffers;
  Plan plan;
};

// Plans a graph; the plan is verified on the problem and replayed on the graph. "auto", where it leaves a gap, also
// plans with nothing sharing bytes by choice and keeps the better: sharing never makes its peak higher.
GraphPlan solve(const Graph& graph, std::string_view planner = "auto", const StorageOptions& storage = {},
                const PlanOptions& options = {});

// Where every tensor and workspace of a planned graph is; tensors outside the arena are in a region per storage.
Addresses addresses_of(const Buffers& buffers, std::span<const Bytes> offsets);

// Replays the plan in the order of the list, and where ops are on several streams in a sample of the other orders in
// which they may run; the faults of the first order that has any, at most `limit`.
std::vector<ReplayFault> replay_all(const Graph& graph, const Buffers& buffers, std::span<const Bytes> offsets,
                                    std::size_t limit = static_cast<std::size_t>(-1));

}  // namespace memplan
