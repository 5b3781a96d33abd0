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

// Per op, the ops that it names itself: the ops that it reads from, its `after`, and if it overwrites bytes, the ops
// that used these before. Streams do not count.
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
  // O(1) when all ops are on one stream. Else per op the last op of each stream that comes before it, O(edges x
  // streams) time and 4 bytes per op and stream; or, if streams are so many that this takes less, a matrix of bits for
  // the ancestors of every op, O(edges x ops / 64) time and ops^2 / 8 bytes. Throws UnsupportedError when that would be
  // more than 2 GiB, and GraphError, naming both ops, if an op overwrites bytes that another stream may still use.
  explicit HappensBefore(const Graph& graph);

  // Whether the ops run one after another, as listed.
  bool total() const { return total_; }

  bool before(Index a, Index b) const {
    if (a >= b) return false;
    if (total_) return true;
    return ancestors_ ? ancestors_->contains(b, a) : latest_[at(b) * streams_.size() + at(stream_of_[at(a)])] >= a;
  }

  // The ops of each stream, ascending, and the stream of each op; only if the order is not total.
  const std::vector<std::vector<Index>>& streams() const { return streams_; }
  Index stream_of(Index op) const { return stream_of_[at(op)]; }

 private:
  // Once `before` of all ops until k is known.
  void add(Index k, const std::vector<Index>& waits);

  bool total_;
  std::vector<std::vector<Index>> streams_;
  std::vector<Index> stream_of_;
  std::vector<Index> latest_;        // per op and stream: the last op there that comes before, or is it
  std::optional<OpSets> ancestors_;  // instead, if streams are many
};

}  // namespace memplan
