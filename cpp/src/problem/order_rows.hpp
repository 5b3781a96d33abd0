// OrderRows: which of some buffers come after which, as rows of bits. Of two that do not conflict one comes first.
//
// Lifetimes say which. If that is no partial order, because lifetimes mean little, each pair is given a direction anew.
// The direction of a pair forces that of each pair that shares a buffer with it, if their other buffers conflict. When
// nothing is forced any more, the next pair is directed at will. If a pair is forced both ways, there is no such order.
// The conflict graph of lifetimes has one, and so has that of lives over a partial order.
//
// O(n^2 x words). Source: Golumbic 1977, transitive orientation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/problem.hpp"

namespace memplan {

class OrderRows {
 public:
  // Of these buffers of the problem, which have no shapes; what follows counts among them.
  OrderRows(const Problem& problem, const std::vector<Index>& buffers, const Deadline& deadline);

  Index count() const { return static_cast<Index>(count_); }
  std::span<const std::uint64_t> after(Index a) const { return row(after_, a); }
  std::span<const std::uint64_t> before(Index b) const { return row(before_, b); }

  bool comes_after(Index a, Index b) const { return has(after(a), b); }  // b after a

  // Whether it is a partial order; if it is not, the pairs are turned first.
  bool make_order(const Deadline& deadline);

  struct Lives {
    std::vector<Step> first, last;
  };
  // Lifetimes that alone say who conflicts of these, ascending; none where the order has none.
  std::optional<Lives> lives(const std::vector<Index>& of, const Deadline& deadline) const;

 private:
  using Rows = std::vector<std::uint64_t>;

  std::span<const std::uint64_t> row(const Rows& rows, Index a) const { return {rows.data() + at(a) * words_, words_}; }
  static bool has(std::span<const std::uint64_t> row, Index b) { return (row[at(b) / 64] >> (at(b) % 64)) & 1; }
  void set(Rows& rows, Index a, Index b) const {
    rows[at(a) * words_ + at(b) / 64] |= std::uint64_t{1} << (at(b) % 64);
  }
  bool is_transitive(const Deadline& deadline) const;
  bool turn(const Deadline& deadline);

  std::size_t count_, words_;
  Rows after_, before_;
};

}  // namespace memplan
