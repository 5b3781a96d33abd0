// Fold: buffers at fixed distances as one buffer. They move as a rigid whole, so they are one buffer with a shape: the
// rectangles of all members. Problems with branches are unbranched first.
//
//     a   ┌────┐                  ┌────┐        distance 64 from a to b; the whole is placed, and a and b lie
//         └────┘    + 64 + b  ─▶  └────┘──┐     where it lies, plus what they are in it
//     b      ┌────┐                  │    │
//            └────┘                  └────┘
#pragma once

#include <span>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

class Fold {
 public:
  // Throws ProblemError, naming two buffers, if they cannot lie together as they should. O(n log n), and members of a
  // group squared.
  explicit Fold(const Problem& problem);

  // The folded problem, in which nothing lies together. Its plans, and all that is proven of it, are those of the
  // problem.
  const Problem& problem() const { return *folded_; }
  // Where a buffer is in the folded problem.
  Index whole_of(Index buffer) const { return whole_of_[at(buffer)]; }
  // The first buffer with bytes among those that make up one of the folded problem; kNone if there is none.
  Index first_of(Index whole) const { return first_of_[at(whole)]; }
  // The offsets of the buffers, from those of the folded problem.
  std::vector<Bytes> unfolded(std::span<const Bytes> offsets) const;
  // The offsets of the folded problem, from those of some buffers; kNowhere if no offset is known.
  std::vector<Bytes> folded(std::span<const Bytes> offsets) const;

 private:
  struct Rigid;
  struct Columns;

  void lay_out(const Problem& problem);
  void make(const Problem& problem, const std::vector<Rigid>& wholes);

  std::vector<Index> first_of_;   // per buffer of the folded problem
  std::vector<Index> whole_of_;   // per buffer, its position in the folded problem
  std::vector<Bytes> inside_of_;  // where it lies there
  std::optional<Problem> folded_;
};

}  // namespace memplan
