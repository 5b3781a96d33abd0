// RowWalk: the bytes that an op with ordered loops reads and writes, iteration by iteration, for the replay of a plan.
// It shares nothing with the code that finds how far outputs may lie over inputs.
#pragma once

#include <string>
#include <vector>

#include "memplan/graph.hpp"

namespace memplan {

// Bytes [begin, end).
struct ByteRun {
  Bytes begin, end;
};

// A tensor of an op that lies in the same region as others of it, from `begin` on.
struct WalkedTensor {
  std::size_t position;  // among the inputs, or the outputs, of the op
  Bytes begin;
  std::vector<ByteRun> written = {};  // of an output, ascending; without bytes that it shows of others
};

// Runs an op's ordered loops over memory: its inputs are there, and its outputs are written. Whenever an iteration
// reads bytes of an input, they must be unchanged. Returns the first fault; empty if there is none.
//
// First, the walk takes whole iterations of the outermost loop, as if all bytes that one reads and writes lived
// together. If that fails, it takes all loops. If there are more than four million iterations, inner iterations are
// taken together. If iterations touch more than eight million runs of bytes in all, each counts as touching all bytes
// from its first to its last. So a right plan of so large an op may be refused, but a wrong plan is never accepted.
// O(iterations x runs of bytes of an iteration), within these limits.
std::string walk_rows(const Graph& graph, const Op& op, const std::vector<WalkedTensor>& inputs,
                      const std::vector<WalkedTensor>& outputs);

}  // namespace memplan
