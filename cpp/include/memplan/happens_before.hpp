// HappensBefore: pairs of ops of which the first has ended before the second begins, in every legal execution of a
// graph.
//
//     stream 0   a ──▶ b ───────▶ e        a before b, c, d, e; b before e; c before d, e
//     stream 1    └──▶ c ──▶ d ──▶┘        b and c, b and d may run side by side
//
// An op comes after the ops whose outputs it reads, and after the ops of its `after`. Ops of one stream also run in
// listed order.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memplan/graph.hpp"

namespace memplan {

// Whether all ops are on the same stream.
bool on_one_stream(const Graph& graph);

// Per op, the ops for which it waits directly: the ops whose outputs it reads, its `after`, and if it overwrites bytes,
// the ops that used these bytes before. Streams do not count.
std::vector<std::vector<Index>> waits_of(const Graph& graph);

// Sets of ops as rows of a matrix of bits.
class OpSets {
 public:
  // Throws UnsupportedError when the matrix would be more than 2 GiB.
  explicit OpSets(Index ops);

  bool contains(Index row, Index op) const {
    return (bits_[at(row) * words_ + at(op) / 64] >> (static_cast<unsigned>(op) % 64)) & 1;
  }
  // Adds `op`, and all ops in the row of `op`, to `row`, which is the row of a later op.
  void add_with_row(Index row, Index op);

 private:
  std::size_t words_;  // per row
  std::vector<std::uint64_t> bits_;
};

class HappensBefore {
 public:
  // O(1) if all ops are on one stream. Otherwise there are two ways, and the smaller one is used. The first stores, per
  // op and stream, the last op of the stream that comes before: O(edges x streams) time and 4 bytes per op and stream.
  // The second is a matrix of bits with the ancestors of every op: O(edges x ops / 64) time and ops^2 / 8 bytes. Throws
  // UnsupportedError if more than 2 GiB are needed. Throws GraphError, naming both ops, if an op overwrites bytes that
  // another stream may still use.
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
  // Call it for ops in ascending order.
  void add(Index k, const std::vector<Index>& waits);

  bool total_;
  std::vector<std::vector<Index>> streams_;
  std::vector<Index> stream_of_;
  std::vector<Index> latest_;  // per op and stream: the last op of the stream that is before the op, or the op itself
  std::optional<OpSets> ancestors_;  // used instead of latest_ if there are many streams
};

}  // namespace memplan
