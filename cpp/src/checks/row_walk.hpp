// RowWalk: what an op with ordered loops reads and writes, iteration by iteration, for the replay of a plan. It shares
// nothing with the code that finds how far outputs may lie over inputs.
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
  std::vector<ByteRun> written = {};  // of an output, from its beginning: ascending; what it shows of others is not
};

// Runs an op's ordered loops over memory: its inputs are there, and its outputs are written. An input's bytes must be
// as they were whenever an iteration reads them. Returns what goes wrong first; empty if nothing does.
//
// First, whole iterations of the outermost loop are run, as if what each reads and writes lived together. Where that
// goes wrong, all loops are run. Of more than four million iterations, the inner ones are run together, and where that
// goes wrong, the answer is what it says. Where iterations touch more than eight million runs of bytes in all, each
// counts as touching all bytes from its first to its last. So a sound plan of so large an op may be refused; a wrong one
// is never let through. O(iterations x runs of bytes that one reads and writes), within these limits.
std::string walk_rows(const Graph& graph, const Op& op, const std::vector<WalkedTensor>& inputs,
                      const std::vector<WalkedTensor>& outputs);

}  // namespace memplan
