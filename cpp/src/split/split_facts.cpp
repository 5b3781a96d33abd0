#include "memplan/split.hpp"

namespace memplan {

std::vector<OpFacts> facts_of(const SplitGraph& split, const Graph& graph, std::span<const OpFacts> facts) {
  std::vector<OpFacts> found;
  for (std::size_t k = 0; k < split.pieces.size(); ++k) {
    const Piece& piece = split.pieces[k];
    OpFacts one = facts[at(piece.of)];
    const Op& op = split.graph.op(static_cast<Index>(k));
    if (piece.does == Piece::Does::part)
      one.cost *= static_cast<double>(piece.iterations.size()) /
                  static_cast<double>(graph.op(piece.of).loops[at(piece.loop)].extent);
    if (piece.does == Piece::Does::early) one.cost = 0;
    if (piece.does == Piece::Does::keep) one.cost = op.cost.value_or(0);
    if (!op.overwrites.empty() && one.again == Again::same) one.again = Again::changes;
    found.push_back(one);
  }
  return found;
}

}  // namespace memplan
