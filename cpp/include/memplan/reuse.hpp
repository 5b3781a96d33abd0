// Reuse: the buffers that take over bytes from others in a plan, and the orderings of ops that this needs.
#pragma once

#include <span>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/problem.hpp"
#include "memplan/replay.hpp"

namespace memplan {

// Per buffer, the first other buffer that later takes over some of its bytes, or kNone. `offsets` must be a valid plan
// of the problem. For n parts, O((n + takeovers) log n).
std::vector<Index> reused_by(const Problem& problem, std::span<const Bytes> offsets);

// Op `before` must have ended when op `after` begins. Otherwise `after` could write over bytes that `before` still
// uses.
struct ReuseEdge {
  Index before;
  Index after;

  bool operator==(const ReuseEdge&) const = default;
};

// The orderings that a plan needs in addition to the graph's own (data, `after` and overwrites). The result is reduced
// to the fewest orderings that imply all others. If a runtime respects these orderings and the graph's own, it may run
// all other ops side by side, whatever the streams and the listed order. Sorted by `after`, then `before`.
//
// The function walks through the ops. If an op writes bytes, it must come after all ops that used these bytes since the
// last write. O((uses + takeovers) log uses + edges x ops / 64) time, ops^2 / 8 bytes. Throws UnsupportedError as
// HappensBefore does.
std::vector<ReuseEdge> reuse_edges(const Graph& graph, const Addresses& addresses);

}  // namespace memplan
