// Fit: a graph whose load is within a capacity, by tensors that leave the arena between two uses.
//
//     op      0   1   2   3   4   5
//     t       ├───────────────────┤          made by op 0, used by ops 1 and 5
//     t       ├───┤           ├───┤          leaves after op 1; op 0 runs again right before op 5
//
// A tensor comes back when its op runs again, and before it the ops whose outputs it reads and that have left too. Or
// its bytes are moved out as soon as they are final, and fetched. These are ops that are added, so that the result is a
// graph like any other: a copy of an op, and a fetch, write new tensors, which later ops read.
//
// What keeps it right: an op runs again only if that gives what it gave before. It draws no random numbers. What it
// reads has not been changed since. What is changed in place after it was made is made again by all the ops that wrote
// it, in their order. What the caller gets stays where it is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memplan/again.hpp"
#include "memplan/graph.hpp"
#include "memplan/storage.hpp"

namespace memplan {

struct FitOptions {
  Bytes capacity = 0;
  bool recompute = true;
  std::optional<double> transfer = {};    // the cost of a byte that is moved out or fetched; none: nothing is moved
  std::int64_t work = 1'000'000'000;      // of the search, in steps of some nanoseconds
  std::size_t states = 100'000;           // that the exact search for small graphs may visit
  std::optional<double> time_limit = {};  // seconds
  std::function<bool()> stop = {};        // asked now and then: whether to end with the best so far
  bool any = false;                       // the first schedule that is found will do, and no cost is bounded
};

struct Fitted {
  Graph graph;
  std::vector<Change> changes;  // in the order in which they run
  Bytes load = 0;               // of the buffers of the graph
  double added_cost = 0;
  double cost_bound = 0;  // no schedule in this order adds less, whatever shares bytes; see docs/fit.md
  Bytes load_bound = 0;   // no schedule in this order needs less, whatever shares bytes; 0 if nothing is known
  bool interrupted = false;
};

// The graph with ops added so that its load is within the capacity, at the least cost that is found. With the same
// options it is the same, unless the time limit or `stop` ends the search. Throws UnsupportedError where ops are on
// several streams, and InfeasibleError where no schedule fits, or none was found.
Fitted fit(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
           const FitOptions& options);

// The graph with ops added so that its load is as little as is found, and then the cost. `load_bound` says what is
// proven; the capacity of the options does not count. It takes some thirty searches, each with a part of the work. If
// the time limit or `stop` ends the search, what was reached.
Fitted fit_least(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                 const FitOptions& options);

// The graph in which given ops run again: pairs of the op that follows, and the op whose outputs come back, with all
// that has changed these. `fetches` are pairs of the op that follows, and a tensor that was moved out. A second pair
// that is the same adds nothing. Throws GraphError where an op may not run, or a tensor not be fetched, there.
Fitted with_reruns(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                   const std::vector<std::pair<Index, Index>>& reruns,
                   const std::vector<std::pair<Index, Index>>& fetches = {}, double transfer = 0);

}  // namespace memplan
