// PairRanges: at which differences of their offsets two buffers collide, or pay.
//
//     offset ▲   ┌─────┐             i and j share bytes if the offset of i less that of j is in a range: between
//            │ ┌─┴─┐ j │             -size of i and size of j, both excluded. If both are alive at a step, the range
//            │ │ i ├───┘             is forbidden. Otherwise it may have a price. A pair has several ranges if a buffer
//            └─┴───┴────▶ step       has a shape, or stands for several that lie together.
//
// Lives, shapes, conflicts, reserved bytes and prices are all in these ranges. Reserved bytes are one more buffer, the
// ground, which lies at 0.
//
// O((n + prices) log n) to begin with. The forbidden ranges of a buffer are collected when they are first asked for, in
// O((1 + k) log n) for k buffers alive with it, and forgotten if all such ranges take too much memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/max_tree.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// It costs `price` if the offset of a less that of b is between `after` and `before`, both excluded.
struct PricedPair {
  Index a, b;
  Bytes after, before;
  std::int64_t price;
};

// A range of the differences between a buffer and another one; a range without a price is forbidden.
struct PairRange {
  Index other;
  Bytes after, before;
  std::int64_t price;
};

class PairRanges {
 public:
  // `problem` outlives it, and has no branches and distances. The two buffers of a pair are different.
  PairRanges(const Problem& problem, std::vector<PricedPair> pairs);

  std::span<const PricedPair> pairs() const { return pairs_; }
  // At which differences buffer i pays, and to which buffer.
  std::span<const PairRange> priced(Index i) const;
  // The ranges that others forbid to buffer i, which has bytes; valid until the next call.
  std::span<const PairRange> forbidden(Index i);
  // The buffer that stands for reserved bytes.
  Index ground() const { return problem_.count(); }
  // Buffers by birth; birth_of(i) is the position of i in that row.
  std::span<const Index> by_birth() const { return by_birth_; }
  std::size_t birth_of(Index i) const { return birth_of_[at(i)]; }

  // The cost of the pairs at these offsets. O(pairs).
  std::int64_t paid(std::span<const Bytes> offsets) const;

 private:
  void collect(Index i, std::vector<PairRange>& found) const;

  const Problem& problem_;
  std::vector<PricedPair> pairs_;
  std::vector<std::size_t> priced_start_;  // per buffer, and one more
  std::vector<PairRange> priced_;
  std::vector<Index> by_birth_;
  std::vector<std::size_t> birth_of_;
  std::vector<Step> births_;  // of by_birth_
  MaxTree deaths_;            // of by_birth_, from the first birth on
  std::vector<std::vector<PairRange>> forbidden_;
  std::vector<bool> known_;
  std::size_t kept_ = 0;  // ranges in there
};

inline bool pays(const PricedPair& pair, std::span<const Bytes> offsets) {
  const Bytes difference = offsets[at(pair.a)] - offsets[at(pair.b)];
  return pair.after < difference && difference < pair.before;
}

}  // namespace memplan
