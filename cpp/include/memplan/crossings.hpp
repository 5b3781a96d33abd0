// Crossings: a check of several methods in one arena. Shared tensors must have the right offset in each method, and no
// other tensor may ever use their bytes. The check uses only graphs and offsets, and shares nothing with the code that
// plans methods.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/problem.hpp"
#include "memplan/replay.hpp"

namespace memplan {

// A method with its places in the arena: of tensors and workspaces of a graph, or of buffers of a problem.
struct PlacedMethod {
  std::string name;
  const Graph* graph = nullptr;
  Addresses addresses = {};  // of the graph
  const Problem* problem = nullptr;
  std::span<const Bytes> offsets = {};  // of the problem
};

// A shared tensor: it keeps its place and its value between methods.
struct PlacedStaying {
  std::string name;
  Bytes bytes = 0;
  Bytes offset = 0;
  std::vector<std::vector<std::string>> tensors;  // per method: no, one or two names of this tensor
};

// Returns faults as messages: tensors that end beyond `peak`, shared tensors at a wrong offset, and other tensors that
// use bytes of shared tensors. Some tensors may use these bytes: views and overwrites of a shared tensor, slices that
// show its bytes unchanged, and views of these slices. If a shared tensor has two names in a method, tensors on the way
// from the first to the second may use its bytes too. O(n log n) for n tensors, ops and views, and O(n) for each shared
// tensor whose bytes others use.
std::vector<std::string> crossings(std::span<const PlacedMethod> methods, std::span<const PlacedStaying> shared,
                                   Bytes peak);

}  // namespace memplan
