// Replay: does a plan keep every value of a graph until it is last read? Walks the ops over a shadow of the
// arena in which every range of bytes remembers which value was written there last.
//
//     arena   ├── t1 ──┤├──── t4 ────┤├ t2 ┤      op reads t1: all its bytes must still say t1
//
// An output may land on an input of its own op only where the op says so: an overwrite, or in place at that very spot,
// over an input of that very name.
// A slice or a part of a concatenation that lies inside its whole is not written again and keeps the value that it had;
// anywhere else it is a copy.
//
// Knows nothing of storages, lifetimes or problems and shares no code with the stages that do: it is the
// second, independent check of a plan, and it catches mistakes of those stages too.
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
  std::vector<Bytes> tensor;     // per tensor: bytes from the beginning of its region, or kNotPlaced
  std::vector<Bytes> workspace;  // per op: bytes from the beginning of the arena, or kNotPlaced
  std::vector<Index> region =
      {};  // per tensor: kNone for the arena, or any number for a place outside; empty: all kNone
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
