// Order: a sequence in which the ops of a graph may run, and the load that the graph has in it.
//
// The load of a graph depends on the order of its ops. This stage looks for an order of low load, and bounds the load
// of every order from below, whatever tensors share bytes by choice.
//
//     a ──▶ big ──▶ r ┐                  a b r s join needs big and huge at once; a r b s join does not
//     b ──▶ huge ─▶ s ┴─▶ join
//
// An order is legal if each op comes after the ops that it waits for: the ops it reads from, its `after`, and if it
// overwrites bytes, the ops that used these before. If ops are on several streams, the given order is kept.
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

// A rule that is not over when the time limit has passed gives the given order.
struct OrderOptions : Limits {
  OnOrder on_order = {};  // told of each order that needs less, and of each higher bound
};

struct OpOrder {
  std::vector<Index> ops;      // of the graph, in the order in which they run
  Bytes load = 0;              // of the buffers in that order, with the options' sharing
  Bytes bound = 0;             // no order and no sharing has a lower load; an alignment is not looked at; 0: unknown
  std::string found_by = {};   // the rule or search that found it
  bool interrupted = false;    // asked to end
  Bytes given_load = 0;        // that of the given order
  double seconds_to_form = 0;  // the buffers of the given order
  std::shared_ptr<const Graph> graph = {};  // in that order; nullptr: in the given one
};

// The graph with its ops in another order, each op as it is. Throws GraphError if the order is not legal.
Graph reordered(const Graph& graph, const std::vector<Index>& ops);

// The same in the order of another graph, with ops of the same names.
Graph reordered_like(const Graph& graph, const Graph& other);

// The order of a rule or search, as it is: its load may be higher than that of the given one. It is the given order if
// ops are on several streams, or if a rule is asked to end. With the same options it is the same, unless the time limit
// or `stop` ends a search.
OpOrder order_of(const Graph& graph, const ChosenOrder& chosen, const StorageOptions& storage = {},
                 const OrderOptions& options = {});

// The order of "best", with the bound: never of a higher load than the given one.
OpOrder best_order(const Graph& graph, const StorageOptions& storage = {}, const OrderOptions& options = {});

}  // namespace memplan
