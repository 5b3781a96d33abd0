// Solve in an order: from a graph to a verified plan of it, with its ops in the order of a rule or search.
//
//     graph ─▶ search for an order ─▶ plan in that order ─┐
//       └─────────────────────────▶ plan as given ────────┴─▶ the one that peaks lower
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "memplan/order.hpp"
#include "memplan/registry.hpp"
#include "memplan/solve.hpp"

namespace memplan {

struct OrderedPlan {
  std::shared_ptr<const Graph> graph;  // its ops in the order of the plan
  GraphPlan found;
  Bytes bound = 0;  // no order and no sharing needs less; 0: unknown
};

using OnOrderedPlan = std::function<void(const std::shared_ptr<const Graph>& graph, GraphPlan found)>;

// The plan of "best" never peaks above that of the given order, which is planned too, unless the plan of the order
// found peaks below the load of the given order. Any other order is taken as it is. An InfeasibleError of "best" speaks
// of all orders.
//
// A time limit is shared out: the search for an order ends after a quarter of it, the plan of the order found takes
// half of what is left, and the given order the rest. If that is too short to form, place and verify two plans, only
// the given order is planned. Once asked to stop, the search for an order ends, and the quicker of the two plans is
// made. Throws as solve().
OrderedPlan solve_in_order(std::shared_ptr<const Graph> graph, const ChosenOrder& order, const ChosenPlanner& planner,
                           const StorageOptions& storage = {}, const PlanOptions& options = {},
                           const OnOrderedPlan& tell = {}, const OnOrder& on_order = {});

}  // namespace memplan
