// Conflicts: pairs of buffers that must be apart, whatever their lifetimes.
//
// Buffers whose lifetimes intersect are always apart. If ops run side by side, this is not enough. Then a buffer may
// take the bytes of another buffer only if all uses of the other happen before the first write of this buffer.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

// A symmetric relation, row by row. A short row is an ascending list of buffers. A long row is a row of bits, if bits
// take no more memory than a list. If there are few buffers, all rows are bits, for speed. O(pairs) memory. To ask
// takes O(log n), or O(1) for a row of bits.
class Conflicts {
 public:
  explicit Conflicts(Index count) : rows_(at(count)), words_((at(count) + 31) / 32) {}

  Index count() const { return static_cast<Index>(rows_.size()); }

  // a and b must be different and within [0, count). O(1) if rows grow in ascending order. Throws ProblemError if all
  // rows together would take more than 4 GiB.
  void add(Index a, Index b) {
    insert(a, b);
    insert(b, a);
  }

  bool contains(Index a, Index b) const {
    const Row& row = rows_[at(a)];
    return is_bits(row) ? has_bit(row, b) : std::binary_search(row.begin(), row.end(), static_cast<std::uint32_t>(b));
  }

  bool empty() const {
    return std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.empty(); });
  }

  // Calls f(b) for each b that conflicts with a, ascending.
  template <class F>
  void for_each(Index a, F&& f) const {
    const Row& row = rows_[at(a)];
    if (!is_bits(row)) {
      for (const std::uint32_t b : row) f(static_cast<Index>(b));
      return;
    }
    for (std::size_t w = 0; w < words_; ++w)
      for (std::uint32_t rest = row[w]; rest != 0; rest &= rest - 1)
        f(static_cast<Index>(w * 32 + at(std::countr_zero(rest))));
  }

  bool operator==(const Conflicts&) const = default;

 private:
  using Row = std::vector<std::uint32_t>;  // a row of words_ words is bits; a shorter row is a list

  bool is_bits(const Row& row) const { return row.size() == words_; }
  static bool has_bit(const Row& row, Index b) { return (row[at(b) / 32] >> (at(b) % 32)) & 1; }
  static void set_bit(Row& row, std::size_t b) { row[b / 32] |= std::uint32_t{1} << (b % 32); }
  void insert(Index a, Index b);
  void take(std::size_t words);

  std::vector<Row> rows_;
  std::size_t words_;      // of a row of bits
  std::size_t taken_ = 0;  // words of all rows
};

}  // namespace memplan
