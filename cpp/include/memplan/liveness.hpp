// Liveness: the half-open lifetimes [first, last), in steps, of every storage and of the bytes inside.
//
//     op    0   1   2   3   4          written by op 1, last read by op 3: [1, 4)
//               ├───────────┤          an input lives from 0; a weight and an output live to the end
//
// A storage lives from the first write to the last read of any of its members. If no op reads a storage, it lives only
// at the op that writes it. Bytes that not all members share may live shorter, with gaps between the lives of members:
//
//     bytes ▲                            root t of 20 bytes, written by op 0 and read by op 1, which
//        20 ┤ ┌───┐                      overwrites bytes [6, 16) with z, read by op 3:
//        16 ┤ │ t └───────┐              strips [0, 6) and [16, 20) live in [0, 2); [6, 16) in [0, 4)
//         6 ┤ │   ┌───────┘ z
//           └─┴───┴──────────▶ step
#pragma once

#include <vector>

#include "memplan/graph.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// Bytes [begin, end) of a storage live in the steps [first, last).
struct Strip {
  Bytes begin = 0;
  Bytes end = 0;
  Step first = 0;
  Step last = 0;

  bool operator==(const Strip&) const = default;
};

struct Lifetime {
  Step first = 0;
  Step last = 0;
  std::vector<Strip> strips = {};  // by bytes, then steps; no two overlap; empty if all bytes live from first to last

  bool operator==(const Lifetime&) const = default;
};

// Steps [first, last).
struct Span {
  Step first = 0;
  Step last = 0;

  bool operator==(const Span&) const = default;
};

// Per tensor, the steps from its write to its last read, in the listed order of ops. O(reads + writes).
std::vector<Span> lives_of(const Graph& graph);

// The bytes and steps that at least one member covers, as strips without overlaps. It sweeps once over the bytes:
// O(members log members), plus the members that cover each range between ends of members.
std::vector<Strip> united(const std::vector<Strip>& members);

// The steps of the ops. Most ops take one step. An op with ordered loops may write over inputs that it is still
// reading. Such an op has several stages, one step each. In each stage, some bytes of these inputs are dead, and some
// bytes of the output are alive.
struct OpSteps {
  // In stage s of an op, only these bytes are needed: of an input, the bytes from bytes[s] on; of an output, the bytes
  // below bytes[s].
  struct Rows {
    Index tensor;
    std::vector<Bytes> bytes;  // per stage, ascending
  };

  std::vector<Step> begin;                      // per op, its first step; and the step after the last op
  std::vector<std::vector<Rows>> fading = {};   // per op, inputs whose bytes die while it runs
  std::vector<std::vector<Rows>> growing = {};  // per op, outputs whose bytes are born while it runs

  bool is_plain() const { return fading.empty(); }  // op k runs at step k
};

// If ops are on several streams or in branches, each op takes one step. O(ops + iterations of ordered loops).
OpSteps op_steps_of(const Graph& graph, const HappensBefore& order);

// One lifetime per storage, in the listed order of ops. There are strips only if all ops are on one stream. If an input
// and an output share bytes, the one inside the other lives through all stages of the op. O((reads + writes) log
// members), plus the members that cover each range between ends of members.
std::vector<Lifetime> lifetimes_of(const Graph& graph, const Storages& storages, const HappensBefore& order,
                                   const OpSteps& steps);

}  // namespace memplan
