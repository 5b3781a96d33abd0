// Bodies: orders of graphs whose ops run in bodies of loops. No other op runs between the ops of a body.
//
//     ops      a │ b c d │ e        b, c, d: a body
//     inside     │ c b d │          1. the order within the body, as if it were a graph
//     outside  e │ (cbd) │ a        2. the order of the others, with the body as one op
//
// What is alive outside of a body does not depend on the order inside. So the two are searched one after the other, the
// innermost bodies first, each by the same rule or search.
//
// Guarantee: legal orders. The bound is proven for each body and for what is around it; or else, for orders that may
// leave a body and enter it again.
// Complexity: that of the rule, once for each body.
#pragma once

#include "memplan/graph.hpp"
#include "memplan/order_registry.hpp"
#include "order/rules.hpp"

namespace memplan {

// The orders that a rule or search finds. `task.model` is the model of the graph.
FoundOrders orders_with_bodies(const Graph& graph, const ChosenOrder& chosen, const OrderTask& task);

}  // namespace memplan
