// RowTimes: in which iterations of an op's ordered loops its kernel needs what, row by row; and which distances between
// an output and an input are safe by that.
//
// overlap.hpp looks at ends: the first byte that is needed, the last that is written. That is all there is to know of
// loops along outer axes that read every row. Along inner axes, or where rows are never read, there are gaps, and an
// output may lie where a problem does not let it. Bounds have to count with it:
//
//     x, y of 3 x 3, loop over columns,        y may lie exactly on x: each iteration writes the column that it has read.
//     which reads first                        By the ends, y begins 6 bytes before x.
//
//     x ├─ read ─┼─ never ─┤                   y may begin behind what is read
//
// Complexity: O(rows log rows), and for each distance at which none of a few rows does harm, all rows. Of more than a
// million rows, or 16 million such looks, it is not known which distances are safe.
#pragma once

#include <span>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/happens_before.hpp"

namespace memplan {

// What an output of an op and an input that dies there may have in common, in any plan whose replay finds no fault.
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
