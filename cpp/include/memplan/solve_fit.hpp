// Solve fit: changes a graph so that it fits a capacity, and makes a verified plan of the changed graph.
//
//     graph ─┬─▶ planner ─▶ it fits as it is, or:
//            ├──────────────▶ fit ─┐                               ┌─▶ a plan within the capacity
//            └─▶ best order ─▶ fit ─┴─▶ the least cost ──▶ planner ─┤
//                               ▲                                  │
//                               └──── a lower load is asked for ───┘ no
//
// First, the unchanged graph is planned. If this plan fits, nothing is changed. A result never peaks above this plan.
// If the load of a changed graph is within the capacity, its plan may still need more bytes. Then fit() is asked for a
// load that is lower by as many bytes, a few times. If this finds nothing, the search for the least load is tried.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "memplan/fit.hpp"
#include "memplan/registry.hpp"
#include "memplan/solve.hpp"

namespace memplan {

// The unchanged graph, and the options of its plan. The changed graph may have other options: more inputs whose bytes
// may be taken, and no outputs over inputs that are still being read.
struct AsItIs {
  std::shared_ptr<const Graph> graph;
  StorageOptions storage;
};

struct FittedPlan {
  std::shared_ptr<const Graph> graph;  // the changed graph
  GraphPlan found;
  std::vector<Change> changes;  // in the order in which they run
  bool reordered = false;       // the ops run in the best order that was found, not in the given order
  double added_cost = 0;
  double cost_bound = 0;  // as of Fitted
  Bytes load_bound = 0;
  bool as_it_is = false;  // the unchanged graph is planned
};

// Returns a plan within the capacity of `options`, at the least added cost that is found. It searches in the given
// order of the ops, and with `reorder`, also in the best order. Without `as_it_is`, the unchanged graph is `graph` with
// `storage`. The time limit is for the whole call. After an interruption, the result is the best plan so far. Throws
// InfeasibleError, with the graph of its plan, if no schedule fits or none was found. Throws InterruptedError if `stop`
// ends the search before a plan was found. Also throws the errors of fit() and solve().
FittedPlan solve_fit(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                     const StorageOptions& storage, const FitOptions& options, bool reorder = false,
                     const ChosenPlanner& planner = choose_planner("auto"),
                     const std::optional<AsItIs>& as_it_is = std::nullopt);

// Returns the plan with the lowest peak: of the unchanged graph, and of the schedules with the least load in each
// order. The capacity is ignored.
FittedPlan solve_fit_least(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                           const StorageOptions& storage, const FitOptions& options, bool reorder = false,
                           const ChosenPlanner& planner = choose_planner("auto"),
                           const std::optional<AsItIs>& as_it_is = std::nullopt);

}  // namespace memplan
