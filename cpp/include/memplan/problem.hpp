// Problem: the input of a planner. Buffers are columns: buffer i has size[i] bytes, is alive in the half-open range
// [first[i], last[i]), and its offset must be a multiple of alignment[i].
//
//   offset ▲
//          │   ┌──────┐            two buffers conflict when their lifetimes intersect
//          │   │  1   │────┐       and both have bytes; then their byte ranges
//          │   └──────┘ 2  │       must be apart
//          │ ┌───┐┌────────┘
//          │ │ 0 ││
//          └─┴───┴┴────────▶ step
//
// A buffer may have a *shape*. Then only its *parts* are in use: rectangles in bytes and steps that move together. Two
// kinds of storages have shapes: a value that is overwritten in part (left), and the whole of a concatenation (right):
//
//   size ┌────┐                     size      ┌──────┐
//        │    └──┐                         ┌──┘      │      two buffers conflict where
//        │    ┌──┘                         │  ┌──────┘      parts of them do
//      0 └────┘         ▶ step           0 └──┘       ▶ step
//
// Two buffers may also be set to conflict regardless of their lifetimes. They may then share no byte at all.
//
// Some buffers may be pinned to offsets. Some bytes of the arena may be reserved: no buffer uses these. Some buffers
// may have to lie together, at fixed distances: problem/fold.hpp says how these are placed.
//
// Some buffers may exist only if a switch takes one of its branches (branches.hpp). If no run has two buffers together,
// they may share bytes, whatever their lifetimes.
//
// A Problem is checked when it is made, and cannot change later. Copies share its columns.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "memplan/branches.hpp"
#include "memplan/conflicts.hpp"
#include "memplan/layout.hpp"
#include "memplan/units.hpp"

namespace memplan {

// A part of a shaped buffer: the bytes [begin, end) of the buffer are in use in the steps [first, last).
struct Part {
  Index buffer = kNone;
  Bytes begin = 0;
  Bytes end = 0;
  Step first = 0;
  Step last = 0;

  bool operator==(const Part&) const = default;
};

class Problem {
 public:
  struct Columns {
    std::vector<Bytes> size;
    std::vector<Step> first, last;
    std::vector<Bytes> alignment;
    std::vector<std::string> names;
  };

  // Moves the columns in. An empty `alignment` means 1 everywhere. `names` is empty, or has one name per buffer, all
  // different. Throws ProblemError, naming column and row, for columns of unequal length, size < 0, last <= first,
  // alignment < 1, and when the sizes, each with its alignment's padding, add up to more than int64.
  Problem(std::vector<Bytes> size, std::vector<Step> first, std::vector<Step> last, std::vector<Bytes> alignment = {},
          std::vector<std::string> names = {})
      : Problem(Columns{std::move(size), std::move(first), std::move(last), std::move(alignment), std::move(names)}) {}
  explicit Problem(Columns columns);

  // The same buffers with these shapes, which replace their own. A buffer without parts is in use as a whole throughout
  // its life. Throws ProblemError for a part outside its buffer's bytes or life, and for parts of one buffer that
  // overlap. O(parts log parts + pairs of parts of one buffer that share bytes).
  Problem with_shapes(std::vector<Part> parts) const;

  // The same buffers with these conflicts, which replace their own. `conflicts` must be for count() buffers. If it is
  // empty, the problem has no conflicts. Throws ProblemError if two pinned buffers conflict and overlap.
  Problem with_conflicts(Conflicts conflicts) const;

  // The same buffers with these pins and reserved bytes, which replace their own. `pins` has the offset of each buffer,
  // or kNowhere if the buffer is free; empty: all are free. Throws ProblemError for a pin that is negative or not
  // aligned; for a reserved range without bytes or steps, or below 0; for a pin or a range so high that the other
  // buffers have no room below 2^63; and for two pins, or a pin and reserved bytes, that overlap. Reserved ranges may
  // overlap each other.
  Problem with_pins(std::vector<Bytes> pins, std::vector<Reserved> reserved = {}) const;

  // The same buffers at these fixed distances, which replace their own. Throws ProblemError if: a buffer is at a
  // distance from itself; two buffers get two distances; an alignment or a pin forbids their distance; at this distance
  // they would share bytes although they are alive together or conflict. The message names both buffers. This is
  // checked again when pins, shapes or conflicts change.
  Problem with_together(std::vector<Together> together) const;

  // The same buffers with these paths, which replace their own. A buffer exists only in the branch that its path names;
  // an empty path means every run. `branches` has one path per buffer, or is empty. Throws ProblemError for a malformed
  // path, and if two pinned buffers overlap and some run has both.
  Problem with_branches(std::vector<std::string> branches) const;

  // The same buffers with these columns, which replace their own. `columns` must have count() rows. Pins, shapes and
  // all other properties are checked again.
  Problem with_columns(Columns columns) const;

  // Some of the buffers, in this order, with their shapes, pins and branches, and the conflicts and distances between
  // them. Reserved ranges stay. If two buffers are at a fixed distance only through a third buffer, they keep this
  // distance when the third is left out. Throws ProblemError for an unknown index, or a repeated index. O(n).
  Problem subset(std::span<const Index> buffers) const;

  // The same buffers as plain rectangles: a plan of them is a plan of this problem too.
  Problem without_shapes() const;

  Index count() const { return static_cast<Index>(columns_->size.size()); }
  std::span<const Bytes> size() const { return columns_->size; }
  std::span<const Step> first() const { return columns_->first; }
  std::span<const Step> last() const { return columns_->last; }
  std::span<const Bytes> alignment() const { return columns_->alignment; }
  const std::vector<std::string>& names() const { return columns_->names; }
  const Columns& columns() const { return *columns_; }

  Bytes size(Index i) const { return columns_->size[at(i)]; }
  Step first(Index i) const { return columns_->first[at(i)]; }
  Step last(Index i) const { return columns_->last[at(i)]; }
  Bytes alignment(Index i) const { return columns_->alignment[at(i)]; }

  bool has_shapes() const { return shapes_ != nullptr; }
  // The parts of a shaped buffer, by their begin, then first; empty for a plain rectangle.
  std::span<const Part> parts(Index i) const {
    if (!shapes_) return {};
    const auto begin = shapes_->start[at(i)];
    return std::span(shapes_->parts).subspan(begin, shapes_->start[at(i) + 1] - begin);
  }
  // Calls f(part) for each part of a buffer; a plain buffer is one part.
  template <class F>
  void for_each_part(Index i, F&& f) const {
    if (const auto shape = parts(i); !shape.empty()) {
      for (const Part& part : shape) f(part);
    } else {
      f(Part{i, 0, size(i), first(i), last(i)});
    }
  }

  // Conflicts beyond lifetimes; nullptr if there are none.
  const Conflicts* conflicts() const { return conflicts_.get(); }

  // Whether a step has both buffers; a != b.
  bool alive_together(Index a, Index b) const { return first(a) < last(b) && first(b) < last(a); }
  // Whether the two buffers conflict beyond lifetimes.
  bool kept_apart(Index a, Index b) const { return conflicts_ != nullptr && conflicts_->contains(a, b); }
  // Whether two buffers are alive together or kept apart. Ignores sizes, shapes and branches, so it may be true even if
  // all bytes may be shared.
  bool conflict(Index a, Index b) const { return alive_together(a, b) || kept_apart(a, b); }
  // Whether two buffers may not share any byte, at any offsets.
  bool wholly_apart(Index a, Index b) const {
    return kept_apart(a, b) || (alive_together(a, b) && parts(a).empty() && parts(b).empty());
  }

  bool has_pins() const { return fixed_ != nullptr && !fixed_->pins.empty(); }
  // The offset that a buffer must have; kNowhere: any.
  Bytes pin(Index i) const { return has_pins() ? fixed_->pins[at(i)] : kNowhere; }
  std::span<const Reserved> reserved() const {
    return fixed_ == nullptr ? std::span<const Reserved>() : fixed_->reserved;
  }
  bool has_branches() const { return branches_ != nullptr; }
  // Only if has_branches().
  const Branches& branches() const { return *branches_; }
  std::string_view branch(Index i) const { return has_branches() ? branches_->paths()[at(i)] : std::string_view(); }
  // Whether some run has both buffers.
  bool coexist(Index a, Index b) const { return !has_branches() || branches_->coexist(a, b); }
  std::span<const Together> together() const { return together_ == nullptr ? std::span<const Together>() : *together_; }

  // The buffer's name, or "#i" if buffers have no names.
  std::string name(Index i) const;

  bool operator==(const Problem& other) const;

 private:
  struct Shapes {
    std::vector<Part> parts;         // by buffer, begin, first
    std::vector<std::size_t> start;  // per buffer, and one more: where its parts begin
  };

  struct Fixed {
    std::vector<Bytes> pins;  // per buffer; empty if no buffer is pinned
    std::vector<Reserved> reserved;

    bool operator==(const Fixed&) const = default;
  };

  std::shared_ptr<const Columns> columns_;
  std::shared_ptr<const Shapes> shapes_;
  std::shared_ptr<const Conflicts> conflicts_;
  std::shared_ptr<const Fixed> fixed_;
  std::shared_ptr<const std::vector<Together>> together_;
  std::shared_ptr<const Branches> branches_;
};

}  // namespace memplan
