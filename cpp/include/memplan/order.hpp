// Order: a sequence in which the ops of a graph may run, and the load that the graph has in it.
//
// The load of a graph depends on the order of its ops. This stage looks for an order with a low load. It also finds a
// lower bound of the load that holds for every order, whichever tensors share bytes by choice.
//
//     a ──▶ big ──▶ r ┐                  a b r s join needs big and huge at once; a r b s join does not
//     b ──▶ huge ─▶ s ┴─▶ join
//
// An order is legal if each op comes after the ops for which it waits. These are the ops whose outputs it reads, its
// `after`, and if it overwrites bytes, the ops that used these bytes before. And no other op runs between the ops of a
// body. If ops are on several streams, the given order is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/limits.hpp"
#include "memplan/order_registry.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// If a rule has not ended at the time limit, the given order is returned.
struct OrderOptions : Limits {
  OnOrder on_order = {};  // called with each order that needs less, and with each higher bound
};

struct OpOrder {
  std::vector<Index> ops;                   // of the graph, in the order in which they run
  Bytes load = 0;                           // of the graph's buffers in this order
  Bytes bound = 0;                          // no order and no sharing has a lower load; ignores alignment; 0: unknown
  std::string found_by = {};                // the rule or search that found it
  bool interrupted = false;                 // `stop` asked for an end
  Bytes given_load = 0;                     // the load in the given order
  double seconds_to_form = 0;               // of forming the buffers in the given order
  std::shared_ptr<const Graph> graph = {};  // in this order; nullptr: the given order is the result
};

// The graph with its ops in another order. Throws GraphError if the order is not legal.
Graph reordered(const Graph& graph, const std::vector<Index>& ops);

// The graph with its ops in the order of `other`, whose ops have the same names.
Graph reordered_like(const Graph& graph, const Graph& other);

// The order of a rule or search. Its load may be higher than the load of the given order. If ops are on several
// streams, or if a rule is asked to end, the result is the given order. The same options give the same order, unless
// the time limit or `stop` ends a search.
OpOrder order_of(const Graph& graph, const ChosenOrder& chosen, const StorageOptions& storage = {},
                 const OrderOptions& options = {});

// The order of "best", with the bound. Its load is never higher than in the given order.
OpOrder best_order(const Graph& graph, const StorageOptions& storage = {}, const OrderOptions& options = {});

}  // namespace memplan
