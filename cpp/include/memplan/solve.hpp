// Solve: from a problem or a graph to a verified plan.
//
//     Graph ─▶ storages ─▶ liveness ─▶ Problem ─▶ planner ─▶ Plan ─▶ verify ─▶ replay
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "memplan/buffers.hpp"
#include "memplan/graph.hpp"
#include "memplan/infeasible.hpp"
#include "memplan/plan.hpp"
#include "memplan/planner.hpp"
#include "memplan/problem.hpp"
#include "memplan/registry.hpp"
#include "memplan/replay.hpp"

namespace memplan {

// Called with each verified plan that a search finds, if it peaks below all plans before. The last of these peaks as
// high as the returned plan, or as the plan in an InfeasibleError. It is called on the calling thread.
using OnPlan = std::function<void(Plan)>;

// Plans a problem and verifies the result. Throws std::invalid_argument for an unknown planner or bad options,
// UnsupportedError for a feature that the planner lacks, InvalidPlanError if a planner's plan is wrong, and
// InfeasibleError if no plan was found that fits the capacity. If the load alone exceeds the capacity, no search is
// made.
Plan solve(const Problem& problem, std::string_view planner = "auto", const PlanOptions& options = {},
           const OnPlan& tell = {});

// The same with any planner, of the registry or not. Throws PlannerError if the planner claims an impossible bound.
Plan solve(const Problem& problem, const ChosenPlanner& planner, const PlanOptions& options = {},
           const OnPlan& tell = {});

struct GraphPlan {
  Buffers buffers;
  Plan plan;
};

using OnGraphPlan = std::function<void(GraphPlan)>;

// Plans a graph. The plan is verified on the problem and replayed on the graph. Its lower bound, and the lower bound of
// an InfeasibleError, hold for the graph in its order, whichever tensors share bytes. If the plan of "auto" is not
// optimal, or does not fit the capacity, "auto" also plans other choices of sharing. One of these choices is no
// sharing, so sharing never makes the peak of "auto" higher.
GraphPlan solve(const Graph& graph, std::string_view planner = "auto", const StorageOptions& storage = {},
                const PlanOptions& options = {}, const OnGraphPlan& tell = {});

GraphPlan solve(const Graph& graph, const ChosenPlanner& planner, const StorageOptions& storage = {},
                const PlanOptions& options = {}, const OnGraphPlan& tell = {});

// The places of all tensors and workspaces of a planned graph. Each storage outside the arena is a region.
Addresses addresses_of(const Buffers& buffers, std::span<const Bytes> offsets);

// Replays the plan in the listed order of ops. If ops are on several streams, it also replays a sample of the other
// legal orders. Returns the faults of the first order with faults, at most `limit`.
std::vector<ReplayFault> replay_all(const Graph& graph, const Buffers& buffers, std::span<const Bytes> offsets,
                                    std::size_t limit = static_cast<std::size_t>(-1));

// The same for a plan of another tool, which has no buffers. `donated` are graph inputs whose bytes may be taken.
std::vector<ReplayFault> replay_all(const Graph& graph, const Addresses& addresses, std::vector<Index> donated,
                                    std::size_t limit = static_cast<std::size_t>(-1));

}  // namespace memplan
