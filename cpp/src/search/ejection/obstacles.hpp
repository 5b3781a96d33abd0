// Obstacles: which placed buffers are in the way of another, as ranges of offsets that it cannot take.
//
//     offset ▲   ┌─────┐           k, 3 bytes, meets i and j. It cannot begin between after and before, both excluded:
//            │   │  j  │
//            │ ┌─┴───┬─┘              after i ├───────────┤ before i
//            │ │  i  │                             after j ├────────────┤ before j
//            └─┴─────┴──▶ step     ──┴────────────┴────────┴────────────┴──▶ offset of k
//
// Without shapes, placed buffers are kept by begin and by end, and a matrix of bits tells who meets whom. So one look
// at all is enough, and nothing needs sorting. With shapes, each buffer has a list of the ranges that its neighbours
// forbid.
//
// O(n) for a look without shapes, O(k log k) with shapes, for k ranges of neighbours.
#pragma once

#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/problem.hpp"

namespace memplan {

class Obstacles {
 public:
  // Of a problem: a matrix of bits is 8 MiB, and lists take 24 bytes for each range of a pair.
  static bool serves(const Problem& problem) { return problem.count() <= (problem.has_shapes() ? 1 << 12 : 1 << 13); }

  struct Range {
    Bytes after, before;
    Index buffer;
  };
  struct End {
    Bytes offset;
    Index buffer;
  };

  // `problem` outlives it.
  Obstacles(const Problem& problem, const Deadline& deadline);

  void add(Index i, Bytes offset);
  void remove(Index i);
  void clear();
  Bytes offset(Index i) const { return offsets_[at(i)]; }  // kNowhere: not placed
  std::span<const Bytes> offsets() const { return offsets_; }

  // Finds the buffers in the way of buffer i, for the two below.
  void look(Index i);
  std::span<const Range> ranges() const { return ranges_; }  // by `after`
  std::span<const End> ends() const { return ends_; }        // their `before`, ascending

  // The lowest offset that is free for buffer i, at which it last looked.
  Bytes lowest(Index i) const;

  // Buffers that the last look went over.
  std::int64_t looked_at() const { return looked_at_; }

 private:
  bool meet(Index a, Index b) const { return (rows_[at(a) * words_ + at(b) / 64] >> (at(b) % 64)) & 1; }
  void fill_rows(const std::vector<Index>& buffers, const Deadline& deadline);
  void fill_forbidden(const std::vector<Index>& buffers, const Deadline& deadline);

  const Problem& problem_;
  std::vector<Bytes> offsets_;
  std::size_t words_;
  std::vector<std::uint64_t> rows_;         // without shapes: who meets whom
  std::vector<End> by_begin_, by_end_;      // without shapes: placed buffers
  std::vector<std::vector<Range>> around_;  // with shapes, per buffer: ranges as if the neighbour lay at 0
  std::vector<Range> ranges_;
  std::vector<End> ends_;
  std::int64_t looked_at_ = 0;
};

}  // namespace memplan
