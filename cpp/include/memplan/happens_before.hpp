// HappensBefore: which ops of a graph have ended before which others begin, in every legal execution.
//
//     stream 0   a ──▶ b ───────▶ e        a before b, c, d, e; b before e; c before d, e
//     stream 1    └──▶ c ──▶ d ──▶┘        b and c, b and d may run side by side
//
// Ops are ordered by the data that they read and by `after`, and the ops of one stream also by their place in the list.
#pragma once

#include <cstdint>
#include <vector>

#include "memplan/graph.hpp"

namespace memplan {

class HappensBefore {
 public:
  enum class Streams { in_order, ignored };  // ignored: only data, `after` and overwrites order the ops

  // O(1) when all ops are on one stream and streams are in order; otherwise a matrix of bits for the ancestors of every
  // op, O(edges x ops / 64) time and ops^2 / 8 bytes. Throws UnsupportedError when that would be more than 2 GiB, and
  // GraphError, naming both ops, where an op overwrites bytes that another stream may still read or write.
  explicit HappensBefore(const Graph& graph, Streams streams = Streams::in_order);

  // Whether the ops run one after another, as listed.
  bool total() const { return total_; }

  bool before(Index a, Index b) const {
    if (total_) return a < b;
    return a < b && ((row(b)[static_cast<std::size_t>(a) / 64] >> (static_cast<unsigned>(a) % 64)) & 1);
  }

 private:
  const std::uint64_t* row(Index k) const { return ancestors_.data() + static_cast<std::size_t>(k) * words_; }
  void add(Index before, Index k);

  bool total_ = true;
  std::size_t words_ = 0;                 // per row
  std::vector<std::uint64_t> ancestors_;  // row k, bit a: a happens before k
};

}  // namespace memplan
