#include <algorithm>

#include "memplan/split.hpp"

namespace memplan {

namespace {

// Bytes that each iteration of a loop reads.
Bytes read_whole(const Graph& graph, const Op& op, const Loop& loop) {
  Bytes bytes = 0;
  for (Index input = 0; input < static_cast<Index>(op.inputs.size()); ++input) {
    const bool by_rows =
        std::any_of(loop.reads.begin(), loop.reads.end(), [&](const LoopRead& read) { return read.input == input; });
    const auto here = op.inputs.begin() + input;
    if (!by_rows && std::find(op.inputs.begin(), here, *here) == here) bytes += graph.tensor(*here).bytes;
  }
  return bytes;
}

}  // namespace

std::vector<OpFacts> facts_of(const SplitGraph& split, const Graph& graph, std::span<const OpFacts> facts,
                              double byte) {
  std::vector<OpFacts> found;
  for (std::size_t k = 0; k < split.pieces.size(); ++k) {
    const Piece& piece = split.pieces[k];
    OpFacts one = facts[at(piece.of)];
    const Op& op = split.graph.op(static_cast<Index>(k));
    if (piece.does == Piece::Does::part || piece.does == Piece::Does::statistics) {
      const Op& whole = graph.op(piece.of);
      const Loop& loop = whole.loops[at(piece.loop)];
      const double share = static_cast<double>(piece.iterations.size()) / static_cast<double>(loop.extent);
      const bool reads_whole = piece.does == Piece::Does::part;
      const double each =
          reads_whole ? std::min(one.cost, byte * static_cast<double>(read_whole(graph, whole, loop))) : 0;
      one.cost = each + share * (one.cost - each);
    }
    if (piece.does == Piece::Does::early) one.cost = 0;
    if (piece.does == Piece::Does::keep || piece.does == Piece::Does::gather) one.cost = op.cost.value_or(0);
    if (!op.overwrites.empty() && one.again == Again::same) one.again = Again::changes;
    found.push_back(one);
  }
  return found;
}

}  // namespace memplan
