// Solve in an order: from a graph to a verified plan, with the ops in the order of a rule or search.
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

// With "best", the given order is planned too, and the lower plan wins. So "best" never peaks above the plan of the
// given order. If the plan of the found order peaks below the load of the given order, the given order is not planned.
// With any other name, only the order of this name is planned. An InfeasibleError of "best" is about all orders.
//
// The search for an order has a quarter of the time limit. Planning the found order has half of the remaining time, and
// planning the given order the rest. If there is too little time for two plans, only the given order is planned. If
// `stop` asks for an end, the search for an order ends, and the quicker of the two plans is made. Throws as solve().
OrderedPlan solve_in_order(std::shared_ptr<const Graph> graph, const ChosenOrder& order, const ChosenPlanner& planner,
                           const StorageOptions& storage = {}, const PlanOptions& options = {},
                           const OnOrderedPlan& tell = {}, const OnOrder& on_order = {});

}  // namespace memplan
