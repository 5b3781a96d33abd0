// Crossings: a check across methods that share an arena, of graphs and offsets alone. Shared tensors lie where they
// should in each method, and nothing else ever uses their bytes. It shares nothing with the code that plans methods.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/problem.hpp"
#include "memplan/replay.hpp"

namespace memplan {

// A method as it lies in the arena: tensors and workspaces of a graph, or buffers of a problem.
struct PlacedMethod {
  std::string name;
  const Graph* graph = nullptr;
  Addresses addresses = {};  // of the graph
  const Problem* problem = nullptr;
  std::span<const Bytes> offsets = {};  // of the problem
};

// A tensor that stays where it is between methods.
struct PlacedStaying {
  std::string name;
  Bytes bytes = 0;
  Bytes offset = 0;
  std::vector<std::vector<std::string>> tensors;  // per method, its zero, one or two names there
};

// What is wrong, as messages: what ends beyond `peak`, shared tensors that are elsewhere, and what uses their bytes but
// does not belong to them. What belongs to them: their views and overwrites; what lies on the way if one is written
// over the other; slices that show their bytes unchanged, and views of these slices. O(n log n) for n tensors, ops and
// views, and O(n) for each shared tensor whose bytes others use.
std::vector<std::string> crossings(std::span<const PlacedMethod> methods, std::span<const PlacedStaying> shared,
                                   Bytes peak);

}  // namespace memplan
