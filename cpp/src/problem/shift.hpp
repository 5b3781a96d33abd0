// Shift: if nothing can lie in the lowest bytes, the problem above them, moved down to 0.
//
//     ▲ ┌────┐ ┌──┐            ▲
//     │ │  0 │ │ 1│            │ ┌────┐ ┌──┐     what is reserved, or pinned, below the lowest address at which
//     │ ├────┴─┴──┤     ─▶     │ │  0 │ │ 1│     anything else may lie is left out; all bounds are higher by it
//     │ │#########│            └─┴────┴─┴──┴─▶
//     └─┴─────────┴─▶
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

class Shift {
 public:
  // No value if there is nothing to leave out. The problem has no branches and distances. O(n log n + (1 + r) log n per
  // buffer) for r ranges that are fixed at a time.
  static std::optional<Shift> of(const Problem& problem);

  const Problem& problem() const { return shifted_; }
  Bytes by() const { return by_; }  // bytes, a multiple of all alignments
  // The offsets of the buffers, from those of the shifted problem.
  std::vector<Bytes> unshifted(std::span<const Bytes> shifted) const;
  // The offsets of the shifted problem, from those of the buffers; kNowhere if there is no offset.
  std::vector<Bytes> shifted(std::span<const Bytes> offsets) const;

 private:
  Shift(const Problem& problem, Bytes by);

  Bytes by_;
  std::vector<Index> kept_;     // buffers that the shifted problem has
  std::vector<Bytes> offsets_;  // of the others: pins
  Problem shifted_;
};

}  // namespace memplan
