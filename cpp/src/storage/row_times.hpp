// RowTimes: the iterations of an op's ordered loops in which its kernel needs each row, and the distances between an
// output and an input that are safe by that.
//
// overlap.hpp looks at ends: the first byte that is needed, the last that is written. For loops along outer axes that
// read every row, this is exact. Along inner axes, or if rows are never read, there are gaps. Then a replay accepts
// outputs at places that a problem does not allow, and bounds have to allow for them:
//
//     x, y of 3 x 3, loop over columns,        y may lie exactly on x: each iteration writes the column that it has read.
//     which reads first                        By the ends, y begins 6 bytes before x.
//
//     x ├─ read ─┼─ never ─┤                   y may begin behind what is read
//
// Complexity: O(rows log rows), plus all rows for each distance that a few rows allow. If there are more than a million
// rows, or 16 million such looks, safe distances are unknown.
#pragma once

#include <span>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/happens_before.hpp"

namespace memplan {

// The bytes that an output of an op and an input that dies there may share, in any plan that a replay accepts.
struct CommonBytes {
  Index input;
  Index output;
  Bytes most;        // bytes that they may share at most
  bool by_the_ends;  // no other distance is safe than those of overlap.hpp
};

// All pairs of these inputs of an op and its outputs that may share a byte while the op runs by its ordered loops.
std::vector<CommonBytes> common_bytes(const Graph& graph, Index op, std::span<const Index> inputs);

// Whether outputs may lie over dying inputs nowhere but where the problem of a graph lets them.
bool has_all_overlaps(const Graph& graph, const HappensBefore& order);

}  // namespace memplan
