// Replay: does a plan keep every value of a graph until its last read? It walks through the ops, with a shadow of the
// arena that remembers for each range of bytes which value was written there last.
//
//     arena   ├── t1 ──┤├──── t4 ────┤├ t2 ┤      op reads t1: all its bytes must still hold t1
//
// - An output may lie on an input of its own op only if the op says so: it overwrites the input, or may be written in
//   place of it. In place counts for that input by its name, and at the address that the op says. An op whose loops are
//   ordered is run row by row: it may write over rows that it has read.
// - A slice inside the tensor that it is cut from, or a part inside its concatenation, is not written again. Anywhere
//   else it is a copy.
//
// This is the second, independent check of a plan. It knows nothing of storages, lifetimes or problems, and shares no
// code with the stages that do, so it catches their mistakes too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "memplan/graph.hpp"

namespace memplan {

struct ReplayFault {
  Index op;             // the op that goes wrong; op_count() for what the caller gets at the end
  Index tensor;         // whose bytes are wrong; kNone for a workspace
  std::string message;  // op, tensor, byte range, and what is there instead
};

inline constexpr Bytes kNotPlaced = -1;  // the offset of what the replay cannot see

// Where everything is.
struct Addresses {
  std::vector<Bytes> tensor;       // per tensor: bytes from the beginning of its region, or kNotPlaced
  std::vector<Bytes> workspace;    // per op: bytes from the beginning of the arena, or kNotPlaced
  std::vector<Index> region = {};  // per tensor: the arena (kNone), or the number of a place outside; empty: all kNone
};

struct ReplayOptions {
  std::size_t limit = static_cast<std::size_t>(-1);  // faults
  std::vector<Index> donated = {};                   // graph inputs that need not be found unchanged outside the arena
  std::vector<Index> sequence = {};                  // the ops in the order in which they run; empty: as listed
};

// All faults, at most `limit`, in the order of execution. O((reads + writes) log ranges). Throws InvalidPlanError when
// a column has the wrong length.
std::vector<ReplayFault> replay(const Graph& graph, const Addresses& addresses, const ReplayOptions& options = {});

// An order in which the graph's ops may legally run: any that keeps data, `after`, and the order of each stream. The
// same seed gives the same order; on one stream there is only one.
std::vector<Index> legal_sequence(const Graph& graph, std::uint64_t seed);

}  // namespace memplan
