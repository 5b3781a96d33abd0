// Buffers: from a graph to the Problem that a planner places, and the way back from buffers to tensors.
//
// A buffer is a placed storage or the workspace of an op. Order: storages by their root's position in the
// graph, then workspaces by op.
#pragma once

#include <initializer_list>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// Which kinds of storage get a place in the arena; the others stay where the caller keeps them.
class Place {
 public:
  Place() : Place({TensorKind::intermediate, TensorKind::output, TensorKind::workspace}) {}
  Place(std::initializer_list<TensorKind> kinds) {
    for (TensorKind kind : kinds) add(kind);
  }
  void add(TensorKind kind) { placed_[static_cast<int>(kind)] = true; }
  bool contains(TensorKind kind) const { return placed_[static_cast<int>(kind)]; }

 private:
  bool placed_[kTensorKinds] = {};
};

struct Buffers {
  Problem problem;
  std::vector<Index> buffer_of_tensor;     // kNone where the tensor is not placed
  std::vector<Bytes> offset_in_buffer;     // per tensor
  std::vector<Index> buffer_of_workspace;  // per op; kNone where it has none or it is not placed
};

// Storages, lifetimes and the problem of a graph; every buffer gets `alignment` (>= 1).
Buffers buffers_of(const Graph& graph, const Place& place = {}, Bytes alignment = 1);

}  // namespace memplan
