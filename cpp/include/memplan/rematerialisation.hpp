// Rematerialisation: the effect and the cost of running an op again. This header also has `Change`, the record of
// tensors that leave and come back.
//
// An op that draws random numbers gives another result. An op that changes its input in place would change the input
// twice, unless the input is made again first. Batch norm in training updates its statistics, but its result does not
// depend on these. So when batch norm runs a second time, the runtime must not let it update the statistics again.
//
// Instead of being made again, a tensor may be moved out of the arena and fetched later. Moves and fetches are ops with
// their own types.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/units.hpp"

namespace memplan {

// The effect of running an op again.
enum class Again : std::uint8_t {
  same,     // gives the same result
  changes,  // changes an input in place: the root of its output if this is a view, otherwise its first input
  never     // gives another result, or has other effects
};

// The cost of an op, and whether it may run again.
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

// costs_of: the cost of each op. again_of: the effect of running each op again, from the graph, or from the type's name
// in torch or ONNX. O(reads + writes).
std::vector<double> costs_of(const Graph& graph, CountedBy by = CountedBy::graph);
std::vector<Again> again_of(const Graph& graph);

// Both, for each op.
std::vector<OpFacts> facts_of(const Graph& graph, CountedBy by = CountedBy::graph);

inline constexpr std::string_view kMoveOut = "memplan.move_out";  // reads a tensor, and keeps its bytes elsewhere
inline constexpr std::string_view kFetch = "memplan.fetch";       // writes a new tensor with these bytes

// Tensors that come back before an op.
struct Change {
  std::vector<std::string> tensors;  // by their first names
  std::vector<std::string> ops;      // the added ops
  std::string after;                 // the last op that used the tensors before
  std::string before;                // the op of the graph before which they come back
  Bytes bytes = 0;
  double cost = 0;
  bool moved = false;  // tensors are moved out and fetched; otherwise, ops run again
};

}  // namespace memplan
