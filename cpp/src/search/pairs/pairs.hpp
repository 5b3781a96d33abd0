// Pairs: a problem without time. Of two buffers, only the difference of their offsets matters.
//
//     offset ▲   ┌─────┐              j lies on i or below it: of the differences d, j's offset less i's, those between
//          d │   │  j  │              -size of j and size of i are forbidden. Shapes forbid less: where parts of them
//            │ ┌─┴───┬─┘                interlock there are gaps between the forbidden ranges
//            │ │  i  │                   allowed ──────┤ forbidden ├──┤ forbidden ├────── allowed
//            └─┴─────┴──▶ step         d             -4            1  3          8
//
// The forbidden ranges express lifetimes, conflicts, shapes and alignments, so one search serves all.
//
// Two kinds of items need no search, because they always find a place:
//   - an item that may lie where another lies: it is no larger, and all that the other may do is allowed to it
//   - an item whose neighbours, wherever they lie, cannot block all of its offsets below the bound
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// The differences from `lowest` to `highest`, both included.
struct OffsetGap {
  Bytes lowest = 0;
  Bytes highest = 0;

  bool operator==(const OffsetGap&) const = default;
};

class Pairs {
 public:
  static constexpr Bytes kFar = kMaxBytes / 4;  // beyond every difference
  static constexpr Bytes kMostBytes = kMaxBytes / 8;

  // For these buffers, which have bytes. No plan of them peaks below `bound`. O(n^2) pairs of parts, O(n^3) to see
  // which need no search.
  Pairs(const Problem& problem, std::vector<Index> buffers, Bytes bound, const Deadline& deadline);

  // How many buffers need a search. Below, i and j are positions among these.
  Index count() const { return static_cast<Index>(items_.size()); }
  Bytes size(Index i) const { return problem_->size(items_[at(i)]); }
  Bytes alignment(Index i) const { return problem_->alignment(items_[at(i)]); }
  Index buffer(Index i) const { return items_[at(i)]; }

  // The allowed differences of the offset of j minus that of i, ascending; one gap without ends if they do not meet. i
  // < j.
  std::span<const OffsetGap> gaps(Index i, Index j) const { return gaps_[pair(i, j)]; }

  // Whether i and j can be exchanged.
  bool twins(Index i, Index j) const;

  // Adds the buffers that need no search to a placement of the others.
  void complete(std::vector<Bytes>& offsets) const;

 private:
  struct Left {
    Index buffer;
    Index beneath;  // it may lie where this buffer lies; kNone: it finds a place anyway
  };

  std::size_t pair(Index i, Index j) const { return at(i) * items_.size() + at(j); }
  void leave_out(const std::vector<Index>& buffers, Bytes bound, const Deadline& deadline);

  const Problem* problem_;
  std::vector<Index> items_;  // buffers
  std::vector<std::vector<OffsetGap>> gaps_;
  std::vector<Left> left_;  // in the order in which they were left out
};

// The allowed differences of the offset of b minus that of a.
std::vector<OffsetGap> gaps_between(const Problem& problem, Index a, Index b);

// The buffers with bytes, in parts that no chain of pairs connects. O(n^2). The buffer `ground` has its place: it
// connects nothing, and is the last of every part.
std::vector<std::vector<Index>> connected_parts(const Problem& problem, const Deadline& deadline, Index ground = kNone);

}  // namespace memplan
