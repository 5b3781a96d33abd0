// CliqueSearch: the heaviest set of vertices of a graph of which every two are joined.
//
// Branch and bound. At a node, the vertices that may still join the clique are coloured. A colour is a set of which no
// two are joined, so a clique takes at most one of them. The weight of a vertex is spread over several colours, so that
// the weights of the colours add up to a close bound. Vertices whose bound stays below the best clique need no branch.
// Each other vertex is a branch, with the vertices before it left out.
//
//     weights 5 4 | 3 2 | …     the first colour takes 4 of both and leaves 1 of the first vertex for a later one
//
// The rows of the graph are bits, and work is counted in words of them. The colours are those of Held, Cook and Sewell
// (2012) and of Tavares (2016), whose bounds split weights like this.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

using Bits = std::vector<std::uint64_t>;

template <class F>
void for_each_bit(std::span<const std::uint64_t> bits, F&& f) {
  for (std::size_t w = 0; w < bits.size(); ++w)
    for (std::uint64_t rest = bits[w]; rest != 0; rest &= rest - 1)
      f(static_cast<Index>(w * 64 + at(std::countr_zero(rest))));
}

// An undirected graph of weighted vertices.
class WeightedGraph {
 public:
  explicit WeightedGraph(std::vector<Bytes> weights)
      : weights_(std::move(weights)), words_(weights_.size() / 64 + 1), rows_(weights_.size() * words_, 0) {}

  Index count() const { return static_cast<Index>(weights_.size()); }
  std::size_t words() const { return words_; }  // per row
  Bytes weight(Index v) const { return weights_[at(v)]; }
  std::span<const std::uint64_t> row(Index v) const { return {rows_.data() + at(v) * words_, words_}; }

  void add_weight(Index v, Bytes more) { weights_[at(v)] += more; }
  void join(Index a, Index b) {
    set(a, b);
    set(b, a);
  }
  bool joined(Index a, Index b) const { return (row(a)[at(b) / 64] >> (at(b) % 64)) & 1; }

 private:
  void set(Index a, Index b) { rows_[at(a) * words_ + at(b) / 64] |= std::uint64_t{1} << (at(b) % 64); }

  std::vector<Bytes> weights_;
  std::size_t words_;
  Bits rows_;
};

class CliqueSearch {
 public:
  // `graph` outlives it; `tick(words)` is told of work, and may throw, which ends the search with the best so far.
  CliqueSearch(const WeightedGraph& graph, std::function<void(std::size_t)> tick)
      : graph_(graph), tick_(std::move(tick)) {}

  // A clique to begin with.
  void offer(std::vector<Index> clique);

  // Searches until all is tried, or about so much work is done; true if the best is proven to be the heaviest.
  bool run(std::int64_t work);

  Bytes weight() const { return best_weight_; }
  const std::vector<Index>& best() const { return best_; }

 private:
  struct Level {
    Bits candidates;  // that may still join the clique
    Bits branches;    // of the candidates: which have to be tried
  };

  bool branch_and_bound(std::int64_t work);
  void reduce();
  bool expand(std::size_t depth, Bytes weight);
  void colour(Level& level, Bytes limit);
  void climb(std::int64_t work);
  void spend(std::size_t words);

  const WeightedGraph& graph_;
  std::function<void(std::size_t)> tick_;
  std::int64_t left_ = 0;   // work
  std::size_t untold_ = 0;  // work that nobody was told of
  Bytes best_weight_ = 0;
  std::vector<Index> best_;
  // Of the search in progress, on the vertices that are worth trying:
  std::vector<Index> vertices_;
  std::optional<WeightedGraph> sub_;
  std::vector<std::unique_ptr<Level>> levels_;
  std::vector<Index> clique_;  // of vertices of `sub_`
  std::vector<Bytes> rest_;    // of weights, that no colour has taken yet
  Bits open_;
  std::vector<Index> colour_;
};

}  // namespace memplan
