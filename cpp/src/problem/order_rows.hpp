// OrderRows: which of some buffers come after which, as rows of bits. Of two buffers that do not conflict, one comes
// first.
//
// Lifetimes say which. If that is no partial order, because lifetimes mean little, each pair is given a direction anew.
// Two pairs that share a buffer, and whose other buffers conflict, have to point the same way, from the shared buffer
// or to it. When nothing is forced any more, the next pair is directed at will. If a pair is forced both ways, there is
// no such order. If conflicts are those of lifetimes, or of lives over a partial order, there is an order.
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
  // For these buffers of the problem, which have no shapes. Below, buffers are given by their positions among these.
  OrderRows(const Problem& problem, const std::vector<Index>& buffers, const Deadline& deadline);

  Index count() const { return static_cast<Index>(count_); }
  std::span<const std::uint64_t> after(Index a) const { return row(after_, a); }
  std::span<const std::uint64_t> before(Index b) const { return row(before_, b); }

  bool comes_after(Index a, Index b) const { return has(after(a), b); }  // b after a

  // Whether this is a partial order. If it is not, the pairs are turned first.
  bool make_order(const Deadline& deadline);

  struct Lives {
    std::vector<Step> first, last;
  };
  // Lifetimes that alone say which of these buffers (ascending) conflict; no value if there are no such lifetimes.
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
