// Overlap: where an op's output may lie over an input that its kernel is still reading.
//
// A kernel that runs ordered loops goes through their iterations in ascending order. Of an input, it still needs the
// bytes from `needed` on; of an output, it has written bytes up to `written`. Both grow:
//
//     output  ├──── written ────┤┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┤
//     input        ├┄┄┄┄┄┄ dead ┄┄┄┄┄┄┤──── needed ────┤
//             ├────┤
//              ahead: the largest of written - needed, over all iterations
//
// If the output begins at least `ahead` bytes before the input, no byte is written before it is dead. Bytes that one
// iteration reads and writes live together, unless the op reads first.
//
// For each pair of an output and an input, one moment counts: the first in which `written` is furthest ahead of
// `needed`. So an op whose input dies takes a few steps, one for each such moment. The shapes of its buffers keep each
// pair exactly at its safe distance:
//
//     step            1          2                       step 1: the first row is written, all of the input is needed
//     input   ├──────────┤  ┄┄┄┄┄├────┤                   step 2: the last row is written, the last window is needed
//     output ├─┤┄┄┄┄┄┄┄┄    ├──────────┤
//
// Complexity: O(iterations) for each input and output. An op of more than a million iterations is looked at in groups.
// Source: "Diagonal Memory Optimisation" (DMO), arXiv 2010.01668, places outputs over inputs of layers like this.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/liveness.hpp"

namespace memplan {

// An output that may share bytes with an input of the same op, if it begins at least `ahead` bytes before the input;
// below 0: if it begins at most so many bytes behind the beginning of the input.
struct Overlap {
  Index input;
  Index output;
  Bytes ahead;

  // Bytes that the two may share at most.
  Bytes most(const Graph& graph) const {
    const Bytes output_bytes = graph.tensor(output).bytes;
    return std::min({output_bytes, graph.tensor(input).bytes, output_bytes - ahead});
  }
};

// All pairs of an input and an output of an op that may share a byte while the op runs, by its ordered loops alone.
std::vector<Overlap> overlaps_of(const Graph& graph, Index op);

// Per input, the first byte that is still needed. Per output, the end of the written bytes.
struct OverlapMoment {
  std::vector<Bytes> needed;
  std::vector<Bytes> written;

  bool operator==(const OverlapMoment&) const = default;
};

struct OverlapStages {
  std::vector<Index> inputs;                // dying ones that are not whole in all moments
  std::vector<Index> outputs;               // those that are not whole from the first iteration on
  std::vector<OverlapMoment> moments = {};  // ascending; in the first, inputs are whole, and in the last, outputs are
};

// Whether the loops of an op may let outputs lie over inputs.
bool may_overlap(const Op& op);

// Whether elements lie one behind another, each in whole bytes. Then rows lie where the shape says.
bool is_dense(const Tensor& tensor);

// The inputs of an op that nothing needs after it, by the order of the list.
std::vector<Index> dying_at(const Graph& graph, Index op, std::span<const Span> lives);

// The moments that count while an op runs of which these inputs die; none if no output may share a byte with them.
OverlapStages overlap_stages(const Graph& graph, Index op, std::span<const Index> dying);

}  // namespace memplan
