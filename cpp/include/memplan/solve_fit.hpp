// Solve fit: from a graph and a capacity to a verified plan of the graph, made to fit.
//
//     graph ─┬──────────────▶ fit ─┐                               ┌─▶ a plan within the capacity
//            └─▶ best order ─▶ fit ─┴─▶ what adds least ─▶ planner ─┤
//                               ▲                                  │
//                               └──── a lower load is asked for ───┘ no
//
// Buffers whose load is within the capacity may still not fit there. If a plan needs more bytes than the capacity, a
// load that is lower by as many bytes is asked for; a few times.
#pragma once

#include <memory>
#include <vector>

#include "memplan/fit.hpp"
#include "memplan/registry.hpp"
#include "memplan/solve.hpp"

namespace memplan {

struct FittedPlan {
  std::shared_ptr<const Graph> graph;  // as it was made to fit
  GraphPlan found;
  std::vector<Change> changes;  // in the order in which they run
  bool reordered = false;       // the ops run in the order of the least load that was found
  double added_cost = 0;
  double cost_bound = 0;  // as of Fitted
  Bytes load_bound = 0;
};

// A plan within the capacity of the options, at the least added cost that is found; in the given order of the ops, or
// with `reorder`, in the best one too. The time limit is for all of it. Whoever interrupts it gets the best so far.
// Throws InfeasibleError, with the graph of its plan, if no schedule fits or none was found; InterruptedError if
// someone asked it to end before one was found; and what fit() and solve() throw.
FittedPlan solve_fit(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                     const StorageOptions& storage, const FitOptions& options, bool reorder = false,
                     const ChosenPlanner& planner = choose_planner("auto"));

// The plan that peaks lowest, of the schedules that need least in each order. The capacity does not count.
FittedPlan solve_fit_least(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                           const StorageOptions& storage, const FitOptions& options, bool reorder = false,
                           const ChosenPlanner& planner = choose_planner("auto"));

}  // namespace memplan
