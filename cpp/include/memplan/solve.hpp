// Solve: the one way through, from a problem or a graph to a verified plan.
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

// Told of each verified plan that a search finds, if it peaks below all before it. The last of these peaks as high as
// the plan that is returned, or that an InfeasibleError holds. Called on the thread that called.
using OnPlan = std::function<void(Plan)>;

// Plans a problem and verifies the result. Throws std::invalid_argument for an unknown planner or bad options,
// UnsupportedError for a feature that the planner lacks, InvalidPlanError if a planner is wrong, and InfeasibleError if
// no plan was found that fits the capacity; without a search if the load alone exceeds it.
Plan solve(const Problem& problem, std::string_view planner = "auto", const PlanOptions& options = {},
           const OnPlan& tell = {});

// The same with any planner, of the registry or not. Throws PlannerError if the planner claims what cannot be.
Plan solve(const Problem& problem, const ChosenPlanner& planner, const PlanOptions& options = {},
           const OnPlan& tell = {});

struct GraphPlan {
  Buffers buffers;
  Plan plan;
};

using OnGraphPlan = std::function<void(GraphPlan)>;

// Plans a graph; the plan is verified on the problem and replayed on the graph. Its lower bound, and that of an
// InfeasibleError, hold for the graph in its order, whatever tensors share bytes. If the plan of "auto" is not optimal,
// or does not fit the capacity, "auto" plans other choices of sharing too, none at all among them, and keeps the best.
// So sharing never makes its peak higher.
GraphPlan solve(const Graph& graph, std::string_view planner = "auto", const StorageOptions& storage = {},
                const PlanOptions& options = {}, const OnGraphPlan& tell = {});

GraphPlan solve(const Graph& graph, const ChosenPlanner& planner, const StorageOptions& storage = {},
                const PlanOptions& options = {}, const OnGraphPlan& tell = {});

// Where every tensor and workspace of a planned graph is; tensors outside the arena are in a region per storage.
Addresses addresses_of(const Buffers& buffers, std::span<const Bytes> offsets);

// Replays the plan in the order of the list, and if ops are on several streams, in a sample of the other orders in
// which they may run; the faults of the first order that has any, at most `limit`.
std::vector<ReplayFault> replay_all(const Graph& graph, const Buffers& buffers, std::span<const Bytes> offsets,
                                    std::size_t limit = static_cast<std::size_t>(-1));

// The same for a plan that another tool made, which has no buffers; `donated` are graph inputs whose bytes may be
// taken.
std::vector<ReplayFault> replay_all(const Graph& graph, const Addresses& addresses, std::vector<Index> donated,
                                    std::size_t limit = static_cast<std::size_t>(-1));

}  // namespace memplan
