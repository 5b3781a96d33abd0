// Reuse: who takes over whose bytes in a plan, and which orderings of ops that asks for.
#pragma once

#include <span>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/problem.hpp"
#include "memplan/replay.hpp"

namespace memplan {

// Per buffer, the first other buffer that takes over some of its bytes after it has used them, or kNone. `offsets` is a
// valid plan of the problem. For n parts, O((n + takeovers) log n).
std::vector<Index> reused_by(const Problem& problem, std::span<const Bytes> offsets);

// Op `before` must have ended when op `after` begins, or `after` would write over what `before` still uses.
struct ReuseEdge {
  Index before;
  Index after;

  bool operator==(const ReuseEdge&) const = default;
};

// The orderings that a plan newly relies on: neither data nor `after` nor overwrites imply them. They are reduced to
// the fewest that imply the others. A runtime that keeps them, and the graph's own, may run the rest side by side,
// whatever the streams and the order of the list. Sorted by `after`, then `before`.
//
// Walks the ops over the arena: an op that writes bytes comes after all that used them since they were last written.
// O((uses + takeovers) log uses + edges x ops / 64) time, ops^2 / 8 bytes. Throws UnsupportedError as HappensBefore
// does.
std::vector<ReuseEdge> reuse_edges(const Graph& graph, const Addresses& addresses);

}  // namespace memplan
