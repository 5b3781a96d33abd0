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
// No byte is written before it is dead if the output begins at least `ahead` bytes before the input. What one iteration
// reads and writes lives together, unless the op reads first.
//
// Of a pair, one moment counts: the first in which what is written is furthest ahead of what is needed. So an op whose
// input dies takes a few steps, one for each such moment, and the shapes of its buffers keep each pair at exactly the
// distance that is safe:
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

// Of inputs the first bytes that are still needed, and of outputs the ends of the bytes that have been written.
struct OverlapMoment {
  std::vector<Bytes> needed;
  std::vector<Bytes> written;

  bool operator==(const OverlapMoment&) const = default;
};

struct OverlapStages {
  std::vector<Index> inputs;                // those of the dying ones of which not all bytes are needed in all moments
  std::vector<Index> outputs;               // those that are not there as a whole from the first iteration on
  std::vector<OverlapMoment> moments = {};  // ascending; in the first, inputs are whole, and in the last, outputs are
};

// Whether the loops of an op say what its outputs may lie over.
bool may_overlap(const Op& op);

// Whether elements lie one behind another, each in whole bytes. Then rows lie where the shape says.
bool is_dense(const Tensor& tensor);

// The inputs of an op that nothing needs after it, by the order of the list.
std::vector<Index> dying_at(const Graph& graph, Index op, std::span<const Span> lives);

// The moments that count while an op runs of which these inputs die; none if no output may share a byte with them.
OverlapStages overlap_stages(const Graph& graph, Index op, std::span<const Index> dying);

}  // namespace memplan
