// HappensBefore: which ops of a graph have ended before which others begin, in every legal execution.
//
//     stream 0   a ──▶ b ───────▶ e        a before b, c, d, e; b before e; c before d, e
//     stream 1    └──▶ c ──▶ d ──▶┘        b and c, b and d may run side by side
//
// Ops are ordered by the data that they read and by `after`, and the ops of one stream also by their place in the list.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memplan/graph.hpp"

namespace memplan {

// Whether all ops are on the same stream.
bool on_one_stream(const Graph& graph);

// Per op, the ops that it waits for by what it says itself: those that it reads from, `after`, and where it overwrites
// bytes, those that used them before. Not by streams.
std::vector<std::vector<Index>> waits_of(const Graph& graph);

// Sets of ops as rows of a matrix of bits.
class OpSets {
 public:
  // Throws UnsupportedError when the matrix would be more than 2 GiB.
  explicit OpSets(Index ops);

  bool contains(Index row, Index op) const {
    return (bits_[at(row) * words_ + at(op) / 64] >> (static_cast<unsigned>(op) % 64)) & 1;
  }
  // Puts op, and all that is in its own row, into the row of a later op.
  void add_with_row(Index row, Index op);

 private:
  std::size_t words_;  // per row
  std::vector<std::uint64_t> bits_;
};

class HappensBefore {
 public:
  // O(1) when all ops are on one stream; otherwise a matrix of bits for the ancestors of every op, O(edges x ops / 64)
  // time and ops^2 / 8 bytes. Throws UnsupportedError when that would be more than 2 GiB, and GraphError, naming both
  // ops, where an op overwrites bytes that another stream may still use.
  explicit HappensBefore(const Graph& graph);

  // Whether the ops run one after another, as listed.
  bool total() const { return total_; }

  bool before(Index a, Index b) const { return a < b && (total_ || ancestors_->contains(b, a)); }

 private:
  bool total_;
  std::optional<OpSets> ancestors_;  // where order is not total
};

}  // namespace memplan
