// Solve fit: from a graph and a capacity to a verified plan of the graph, made to fit.
//
//     graph ─┬─▶ planner ─▶ it fits as it is, or:
//            ├──────────────▶ fit ─┐                               ┌─▶ a plan within the capacity
//            └─▶ best order ─▶ fit ─┴─▶ what adds least ─▶ planner ─┤
//                               ▲                                  │
//                               └──── a lower load is asked for ───┘ no
//
// The plan of the graph as it is comes first: nothing is given up where it fits, and nothing that is found peaks above
// it. Buffers whose load is within the capacity may still not fit there. If a plan needs more bytes than the capacity, a
// load that is lower by as many bytes is asked for; a few times. What was not found then may be found where as little as
// possible is asked for.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "memplan/fit.hpp"
#include "memplan/registry.hpp"
#include "memplan/solve.hpp"

namespace memplan {

// The graph as it is planned where nothing is given up, and the options of that plan. What is made to fit may have
// others: inputs whose bytes may be taken, and no outputs over inputs that are still being read.
struct AsItIs {
  std::shared_ptr<const Graph> graph;
  StorageOptions storage;
};

struct FittedPlan {
  std::shared_ptr<const Graph> graph;  // as it was made to fit
  GraphPlan found;
  std::vector<Change> changes;  // in the order in which they run
  bool reordered = false;       // the ops run in the order of the least load that was found
  double added_cost = 0;
  double cost_bound = 0;  // as of Fitted
  Bytes load_bound = 0;
  bool as_it_is = false;  // the plan of the graph as it is
};

// A plan within the capacity of the options, at the least added cost that is found; in the given order of the ops, or
// with `reorder`, in the best one too. Without `as_it_is`, that is the graph with these options. The time limit is for
// all of it. Whoever interrupts it gets the best so far.
// Throws InfeasibleError, with the graph of its plan, if no schedule fits or none was found; InterruptedError if
// someone asked it to end before one was found; and what fit() and solve() throw.
FittedPlan solve_fit(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                     const StorageOptions& storage, const FitOptions& options, bool reorder = false,
                     const ChosenPlanner& planner = choose_planner("auto"),
                     const std::optional<AsItIs>& as_it_is = std::nullopt);

// The plan that peaks lowest: of the graph as it is, and of the schedules that need least in each order. The capacity
// does not count.
FittedPlan solve_fit_least(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                           const StorageOptions& storage, const FitOptions& options, bool reorder = false,
                           const ChosenPlanner& planner = choose_planner("auto"),
                           const std::optional<AsItIs>& as_it_is = std::nullopt);

}  // namespace memplan
