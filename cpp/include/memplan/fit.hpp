// Fit: lower the load of a graph to a capacity. For this, tensors leave the arena between two uses (rematerialisation
// or offloading).
//
//     op      0   1   2   3   4   5
//     t       ├───────────────────┤          made by op 0, used by ops 1 and 5
//     t       ├───┤           ├───┤          leaves after op 1; op 0 runs again right before op 5
//
// There are two ways to bring a tensor back. Its op runs again; if inputs of this op have left too, their ops run again
// first. Or the bytes of the tensor are moved out after the last write to it, and fetched later. Both ways add ops to
// the graph: copies of ops, moves and fetches. Copies and fetches write new tensors, and later ops read these.
//
// Values stay the same. An op runs again only if it gives the same result: it draws no random numbers, and its inputs
// have not been changed since its first run. If ops change a tensor in place, all ops that wrote to it run again, in
// their order. Graph outputs never leave.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/limits.hpp"
#include "memplan/rematerialisation.hpp"
#include "memplan/storage.hpp"

namespace memplan {

struct FitOptions : Limits {
  Bytes capacity = 0;
  bool recompute = true;
  std::optional<double> transfer = {};  // cost of moving one byte out or in; without a value, nothing is moved
  std::int64_t work = 1'000'000'000;    // limit of the search's work, in steps of some nanoseconds
  std::size_t states = 100'000;         // most states that the exact search for small graphs may visit
  bool any = false;                     // return the first schedule that fits, without a bound of the cost
};

struct Fitted {
  Graph graph;
  std::vector<Change> changes;  // in the order in which they run
  Bytes load = 0;               // the load of the graph's buffers
  double added_cost = 0;
  double cost_bound = 0;  // no schedule in this order adds less cost, whichever tensors share bytes; docs/fit.md
  Bytes load_bound = 0;   // no schedule in this order needs less, whichever tensors share bytes; 0: not known
  bool interrupted = false;
};

// Adds ops, so that the load is within the capacity. It returns the cheapest graph that it finds. The same options give
// the same graph, unless the time limit or `stop` ends the search. Throws UnsupportedError if ops are on several
// streams, and InfeasibleError if no schedule fits, or none was found.
Fitted fit(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
           const FitOptions& options);

// Adds ops, so that the load is as low as the search can make it. Among graphs of this load, it looks for the cheapest.
// `load_bound` is a proven lower bound of the load. The capacity of the options is ignored. The function makes about
// thirty searches, which share the given `work` between them. If the time limit or `stop` ends the search, it returns
// the best graph so far.
Fitted fit_least(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                 const FitOptions& options);

// Adds given ops. A pair (a, b) of `reruns` runs op b again right before op a, with all ops that changed the outputs of
// b in place. A pair (a, t) of `fetches` fetches the moved tensor t right before op a. A pair that is given twice
// counts once. Throws GraphError if an op may not run at its place, or a tensor may not be fetched there.
Fitted with_reruns(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                   const std::vector<std::pair<Index, Index>>& reruns,
                   const std::vector<std::pair<Index, Index>>& fetches = {}, double transfer = 0);

}  // namespace memplan
