// Reduction: a problem as a plainer one with the same plans, and the way back.
//
//     branches     become conflicts (unbranched.hpp)
//     groups       at fixed distances become one buffer each, with a shape (fold.hpp)
//     low bytes    that nothing can use are left out (shift.hpp)
//
// Planners get the plainer problem. A plan or a bound of the one becomes a plan or a bound of the other, higher by the
// bytes that were left out below.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "memplan/problem.hpp"
#include "problem/fold.hpp"
#include "problem/shift.hpp"

namespace memplan {

class Reduction {
 public:
  enum class LowBytes { kLeftOut, kKept };

  // Throws UnsupportedError if branches or groups need more steps than there are. O(n log n), pairs of which one is in
  // a branch, and members of a group squared.
  explicit Reduction(const Problem& problem, LowBytes low_bytes = LowBytes::kLeftOut);

  const Problem& problem() const { return problem_; }

  // Whether nothing had to be done.
  bool is_identity() const { return identity_; }

  // The first buffer with bytes among those that have become one; kNone if there is none. Only if low bytes are kept.
  Index first_of(Index item) const { return fold_ ? fold_->first_of(item) : item; }

  // The offsets of the buffers, from those of the reduced problem, and back; kNowhere if no offset is known.
  std::vector<Bytes> restored(std::span<const Bytes> offsets) const;
  std::vector<Bytes> reduced(std::span<const Bytes> offsets) const;

  // The bytes that were left out below: peaks, bounds and capacities of the problem are higher by so much.
  Bytes low_bytes() const { return shift_ ? shift_->by() : 0; }

 private:
  bool identity_;
  std::optional<Fold> fold_;
  std::optional<Shift> shift_;
  Problem problem_;
};

}  // namespace memplan
