// Rematerialisation: what happens if an op runs again, and what that costs. This header also has `Change`, the record
// of tensors that leave and come back.
//
// An op that draws random numbers gives something else. An op that changes its input in place would change it twice,
// unless the input is made again first. Batch norm in training updates its statistics, but its result does not depend
// on them. So when the op runs a second time, the runtime must prevent it from updating the statistics again.
//
// Instead of being made again, a tensor may be moved out of the arena and fetched. Moves and fetches are ops of types
// of their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/units.hpp"

namespace memplan {

// What running an op again does.
enum class Again : std::uint8_t {
  same,     // gives what it gave before
  changes,  // changes an input in place: the tensor that its output is a view of, or else its first input
  never     // gives something else, or has other effects
};

// What an op costs, and whether it may run again.
struct OpFacts {
  double cost = 0;  // finite, >= 0
  Again again = Again::same;
};

// How costs of ops are counted. Every op except a view costs one unit for each byte that it reads or writes.
enum class CountedBy : std::uint8_t {
  graph,  // as the graph says; if it does not say, by flops
  bytes,
  flops  // bytes, and the floating-point operations that the graph says
};

// costs_of: the cost of each op. again_of: what running each op again does, as the graph says, or else as its type's
// name in torch or ONNX suggests. O(reads + writes).
std::vector<double> costs_of(const Graph& graph, CountedBy by = CountedBy::graph);
std::vector<Again> again_of(const Graph& graph);

// Both, for each op.
std::vector<OpFacts> facts_of(const Graph& graph, CountedBy by = CountedBy::graph);

inline constexpr std::string_view kMoveOut = "memplan.move_out";  // reads a tensor, and keeps its bytes elsewhere
inline constexpr std::string_view kFetch = "memplan.fetch";       // writes a new tensor with these bytes

// Tensors that come back before an op.
struct Change {
  std::vector<std::string> tensors;  // by the names that they had
  std::vector<std::string> ops;      // the ops that were added for it
  std::string after;                 // the op that used them last before
  std::string before;                // the op of the graph that runs next
  Bytes bytes = 0;
  double cost = 0;
  bool moved = false;  // tensors are moved out and fetched; otherwise, ops run again
};

}  // namespace memplan
