// Problem: what a planner is given. Buffers as columns; buffer i has size[i] bytes, is alive in the
// half-open [first[i], last[i]), and its offset must be a multiple of alignment[i].
//
//   offset ▲
//          │   ┌──────┐            two buffers conflict when their lifetimes intersect
//          │   │  1   │────┐       and both have bytes; then their byte ranges
//          │   └──────┘ 2  │       must be apart
//          │ ┌───┐┌────────┘
//          │ │ 0 ││
//          └─┴───┴┴────────▶ step
//
// The columns may belong to someone else (a numpy array): a Problem keeps their owner alive and never
// writes to them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

class Problem {
 public:
  struct Columns {
    std::span<const Bytes> size;
    std::span<const Step> first;
    std::span<const Step> last;
    std::span<const Bytes> alignment;
  };

  // Takes columns over; an empty `alignment` means 1 everywhere, `names` is empty or has one name per buffer, all
  // different. Throws ProblemError, naming column and row, for columns of unequal length, size < 0, last <= first,
  // alignment < 1, and when the sizes, each with its alignment's padding, add up to more than int64.
  Problem(std::vector<Bytes> size, std::vector<Step> first, std::vector<Step> last, std::vector<Bytes> alignment = {},
          std::vector<std::string> names = {});

  // Looks at columns that `owner` keeps alive, without a copy. Throws as the constructor does.
  static Problem view(Columns columns, std::shared_ptr<const void> owner, std::vector<std::string> names = {});

  // Checks the columns again, since their owner may have changed them: throws as the constructor does. O(n).
  void check() const;

  Index count() const { return static_cast<Index>(columns_.size.size()); }
  std::span<const Bytes> size() const { return columns_.size; }
  std::span<const Step> first() const { return columns_.first; }
  std::span<const Step> last() const { return columns_.last; }
  std::span<const Bytes> alignment() const { return columns_.alignment; }
  const std::vector<std::string>& names() const { return *names_; }

  Bytes size(Index i) const { return columns_.size[static_cast<std::size_t>(i)]; }
  Step first(Index i) const { return columns_.first[static_cast<std::size_t>(i)]; }
  Step last(Index i) const { return columns_.last[static_cast<std::size_t>(i)]; }
  Bytes alignment(Index i) const { return columns_.alignment[static_cast<std::size_t>(i)]; }

  // The buffer's name, or "#i" where buffers have none.
  std::string name(Index i) const;

  bool operator==(const Problem& other) const;

 private:
  Problem() = default;

  Columns columns_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const std::vector<std::string>> names_;
};

}  // namespace memplan
