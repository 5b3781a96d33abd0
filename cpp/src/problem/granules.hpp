// Granules: the bytes that alignments cost. If all offsets are multiples of a number, the *granule*, the arena falls
// into granules of so many bytes.
//
//     ┌────────┬────────┬────────┐      what begins at a multiple of the granule fills the granule in which it ends: the
//     │aaaaaaaa│aaa▒▒▒▒▒│bbbbbb▒▒│      rest of that, ▒, its *tail*, is lost. Only the tail of what lies highest is not,
//     └────────┴────────┴────────┘      and the tails below parts that begin inside a granule
//
// InGranules adds up the parts in use at one step, and gives a bound of the arena. Take the bytes in use, and all
// tails. Two of these overlap only if a part begins inside a granule, in the tail of the part below it. So all of them
// cover at least their sum, minus the bytes of such parts in their first granule. They end at the peak, or one tail
// above it.
#pragma once

#include <map>
#include <optional>

#include "memplan/problem.hpp"

namespace memplan {

// The number of which all offsets of buffers with bytes are multiples. 1 without such buffers.
Bytes granule_of(const Problem& problem);

class InGranules {
 public:
  explicit InGranules(Bytes granule) : granule_(granule) {}

  // A part of a buffer: its bytes [begin, end), counted from where the buffer starts. O(log of different tails).
  void add(Bytes begin, Bytes end) { change(begin, end, 1); }
  void remove(Bytes begin, Bytes end) { change(begin, end, -1); }
  // Bytes side by side that may begin anywhere.
  void add_anywhere(Bytes bytes) { change_anywhere(bytes, 1); }
  void remove_anywhere(Bytes bytes) { change_anywhere(bytes, -1); }

  // At least as many bytes as least() says.
  Bytes most() const { return covered_; }
  // No arena has fewer bytes, if all added parts are in use at once. O(parts that begin inside + different tails).
  Bytes least() const;

 private:
  void change(Bytes begin, Bytes end, int sign);
  void change_anywhere(Bytes bytes, int sign);
  Bytes overlapping() const;

  Bytes granule_;
  Bytes covered_ = 0;              // bytes in use, and tails
  Bytes tails_ = 0;                // their sum
  std::map<Bytes, Index> ends_;    // how many parts end so many bytes into a granule, and not at its end
  std::map<Bytes, Index> begins_;  // how many begin so many bytes into a granule, and not at its beginning
  Bytes anywhere_ = 0;             // bytes in their first granules, at most, of those that begin anywhere
  Index anywhere_count_ = 0;
};

// The same buffers, each rounded up to whole granules, and counted in granules. Its plans, times the granule, are plans
// of the problem. Without shapes, no peak is lost: if the problem has a plan that peaks at p bytes, this one has a plan
// of p bytes, rounded up. No value for a problem with pins, reserved bytes, buffers that lie together or branches; if
// the granule is 1, or if all sizes are multiples of it.
std::optional<Problem> in_granules(const Problem& problem, Bytes granule);

}  // namespace memplan
