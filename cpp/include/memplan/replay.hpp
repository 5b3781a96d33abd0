// Replay: does a plan keep every value of a graph until its last read? The replay walks through the ops. For each range
// of bytes of the arena, it remembers the value that was written there last.
//
//     arena   ├── t1 ──┤├──── t4 ────┤├ t2 ┤      op reads t1: all its bytes must still hold t1
//
// - An output may lie on an input of its own op only if the op overwrites this input, or permits the output in place of
// this input. A permission counts for the input by its name, and at the given address. An op with ordered loops is run
// row by row: it may write over rows that it has read. - A slice inside its own tensor, or a part inside its
// concatenation, is not written again. At any other place it is a copy.
//
// This is the second, independent check of a plan. It shares no code with storages, lifetimes and problems, so it also
// finds mistakes of those stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "memplan/graph.hpp"

namespace memplan {

struct ReplayFault {
  Index op;             // the op with the fault; op_count() for outputs at the end
  Index tensor;         // whose bytes are wrong; kNone for a workspace
  std::string message;  // op, tensor, byte range, and the contents found there
};

inline constexpr Bytes kNotPlaced = -1;  // the offset of a tensor or workspace that the replay ignores

// The places of all tensors and workspaces.
struct Addresses {
  std::vector<Bytes> tensor;       // per tensor: bytes from the beginning of its region, or kNotPlaced
  std::vector<Bytes> workspace;    // per op: bytes from the beginning of the arena, or kNotPlaced
  std::vector<Index> region = {};  // per tensor: the arena (kNone), or the number of a place outside; empty: all kNone
};

struct ReplayOptions {
  std::size_t limit = static_cast<std::size_t>(-1);  // the most faults to return
  std::vector<Index> donated = {};                   // graph inputs that may change outside the arena
  std::vector<Index> sequence = {};                  // the ops in the order in which they run; empty: as listed
};

// Returns faults in the order of execution, at most `limit`. O((reads + writes) log ranges). Throws InvalidPlanError if
// a column has the wrong length.
std::vector<ReplayFault> replay(const Graph& graph, const Addresses& addresses, const ReplayOptions& options = {});

// A random order in which the graph's ops may legally run. It respects data, `after`, and the order of each stream. The
// same seed gives the same order. With one stream, there is only one order.
std::vector<Index> legal_sequence(const Graph& graph, std::uint64_t seed);

}  // namespace memplan
