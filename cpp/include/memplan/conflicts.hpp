// Conflicts: pairs of buffers that must be apart wherever they live in time.
//
// Buffers whose lifetimes intersect are apart anyway. Ops that run side by side ask for more: a buffer may take
// another's bytes only where everything that touches the one happens before the other is written.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

// A symmetric relation as a matrix of bits: count^2 / 8 bytes, O(1) to ask.
class Conflicts {
 public:
  // Throws ProblemError when the matrix would be larger than 4 GiB.
  explicit Conflicts(Index count);

  Index count() const { return count_; }

  // a and b are different and within [0, count).
  void add(Index a, Index b) {
    set(a, b);
    set(b, a);
  }
  bool contains(Index a, Index b) const { return (row(a)[word(b)] >> bit(b)) & 1; }

  bool empty() const {
    return std::all_of(bits_.begin(), bits_.end(), [](std::uint64_t bits) { return bits == 0; });
  }

  // Calls f(b) for each b that conflicts with a, ascending.
  template <class F>
  void for_each(Index a, F&& f) const {
    const std::span<const std::uint64_t> words = row(a);
    for (std::size_t w = 0; w < words.size(); ++w)
      for (std::uint64_t rest = words[w]; rest != 0; rest &= rest - 1)
        f(static_cast<Index>(w * 64 + at(std::countr_zero(rest))));
  }

  bool operator==(const Conflicts&) const = default;

 private:
  static std::size_t word(Index i) { return at(i) / 64; }
  static unsigned bit(Index i) { return static_cast<unsigned>(i) % 64; }
  std::span<const std::uint64_t> row(Index a) const { return {bits_.data() + at(a) * words_, words_}; }
  void set(Index a, Index b) { bits_[at(a) * words_ + word(b)] |= std::uint64_t{1} << bit(b); }

  Index count_ = 0;
  std::size_t words_ = 0;  // per row
  std::vector<std::uint64_t> bits_;
};

}  // namespace memplan
