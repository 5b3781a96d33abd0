// Staying: a method's graph, changed so that a shared tensor has a place in it from the first step to the last.
//
// A weight has such a place. So the tensor that owns the bytes of the shared tensor becomes a weight:
//
//     input, weight      is called a weight, and weights are placed
//     made by an op      is written over a new weight
//     read and written   the second is written over the first, through ops that may write in place
//
// So weights are placed, but the other weights must not be. If inputs have no place, the other weights are called
// inputs meanwhile. Otherwise they are excluded.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "memplan/buffers.hpp"
#include "memplan/graph.hpp"
#include "memplan/methods.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// An output, and the input over which it is written by choice, in the graph that is planned alone.
struct OverInput {
  Index output;
  Index input;
  Bytes offset;
};

// A method's own graph, the graph to plan, and how they differ. Both have the same tensors in the same order; the graph
// to plan has some more behind them.
struct Prepared {
  std::shared_ptr<const Graph> own, graph;
  Place place;
  std::vector<Index> before;  // per tensor that only `graph` has, the tensor that is written over it
  std::vector<OverInput> taken;

  bool changed() const { return graph != own; }

  // From the plan of `graph` in some order: the method's own graph in that order, and its buffers.
  std::pair<std::shared_ptr<const Graph>, Buffers> restored(const Graph& planned, Buffers buffers) const;
};

// The graph of a method, in which shared tensors stay. `position` is the position of the method in Staying::tensors.
// Throws GraphError, naming tensor, method and reason, if a tensor cannot stay. O(n), and O(n) for each shared tensor
// with two names.
Prepared prepared(const Method& method, std::size_t position, std::span<const Staying> shared);

// The problem in which these buffers are alive from the first step to the last, and all are aligned. O(n).
Problem alive_throughout(const Problem& problem, const std::vector<bool>& staying, Bytes alignment);

}  // namespace memplan
