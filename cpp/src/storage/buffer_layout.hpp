// Buffer layout: the demands of a graph's layout, by name, applied to its buffers.
#pragma once

#include <span>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/problem.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// Buffers, and which of them tensors and workspaces lie in; kNone if they have no place.
struct BufferPlaces {
  const Problem& problem;
  std::span<const Index> buffer_of_tensor;
  std::span<const Bytes> offset_in_buffer;
  std::span<const Index> root_of_tensor;
  std::span<const Index> buffer_of_workspace;  // per op
  std::span<const Step> begin_of_op;           // per op, and one more; empty: op k is step k
};

// The problem of these buffers with the pins, reserved bytes, distances and conflicts that the layout asks for. Throws
// GraphError for a name that no tensor or workspace in the arena has, and for tensors that share a buffer although the
// layout forbids it. Throws ProblemError for demands that no plan can meet.
Problem with_layout(const Graph& graph, const BufferPlaces& lies);

// `shared` without the pairs in buffers that the layout names.
std::vector<Shared> shared_elsewhere(const Graph& graph, const BufferPlaces& lies, std::vector<Shared> shared);

}  // namespace memplan
