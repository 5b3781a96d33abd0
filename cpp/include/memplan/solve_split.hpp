// Solve split: from a graph and a capacity to a verified plan of the graph with ops in pieces (split.hpp).
#pragma once

#include <memory>
#include <vector>

#include "memplan/solve_fit.hpp"
#include "memplan/split.hpp"

namespace memplan {

struct SplitOptions {
  std::optional<Bytes> capacity = {};     // no value: as little as is found
  double call = 0;                        // the cost of a call of a kernel
  Index max_pieces = 1024;                // of a region
  std::int64_t work = 3'000'000;          // of the search: ops of graphs that it looks at
  std::optional<double> time_limit = {};  // seconds
  std::function<bool()> stop = {};
};

// A region that runs in pieces.
struct SplitChange {
  std::vector<std::string> ops;
  std::vector<std::string> tensors;  // that are never whole
  Index pieces = 0;
  Bytes bytes = 0;  // of these tensors, whole
  Bytes kept = 0;   // rows that are moved within their buffers
  double cost = 0;
};

struct FoundSplit {
  std::shared_ptr<const Graph> graph;
  std::vector<Piece> pieces;  // per op
  std::vector<OpFacts> facts;
  std::vector<SplitChange> changes;
  Bytes load = 0;
  double added_cost = 0;
};

// Splits regions until the load is within the capacity, or nothing more is found; the graph as it is, if it is within.
// Throws what split() throws for graphs that it does not take.
FoundSplit find_split(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                      const SplitOptions& options);

}  // namespace memplan
