// Replay: does a plan keep every value of a graph until it is last read? Walks the ops over a shadow of the
// arena in which every range of bytes remembers which value was written there last.
//
//     arena   ├── t1 ──┤├──── t4 ────┤├ t2 ┤      op reads t1: all its bytes must still say t1
//
// Knows nothing of storages, lifetimes or problems and shares no code with the stages that do: it is the
// second, independent check of a plan, and it catches mistakes of those stages too.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "memplan/graph.hpp"

namespace memplan {

struct ReplayFault {
  Index op;             // the step that goes wrong; op_count() for the graph's outputs at the end
  Index tensor;         // whose bytes are wrong; kNone for a workspace
  std::string message;  // op, tensor, byte range, and what is there instead
};

inline constexpr Bytes kNotPlaced = -1;  // the offset of what lives outside the arena

// All faults, at most `limit`, in order of steps. `offset` has one entry per tensor, `workspace_offset` one
// per op: bytes from the beginning of the arena, or kNotPlaced for what lives elsewhere.
// O((reads + writes) log ranges). Throws InvalidPlanError when a column has the wrong length.
std::vector<ReplayFault> replay(const Graph& graph, std::span<const Bytes> offset,
                                std::span<const Bytes> workspace_offset,
                                std::size_t limit = static_cast<std::size_t>(-1));

}  // namespace memplan
