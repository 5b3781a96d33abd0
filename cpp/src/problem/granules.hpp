// Granules: what alignments cost. If all offsets are multiples of a number, the *granule*, the arena falls into granules
// of so many bytes.
//
//     ┌────────┬────────┬────────┐      what begins at a multiple of the granule fills the granule in which it ends: the
//     │aaaaaaaa│aaa▒▒▒▒▒│bbbbbb▒▒│      rest of that, ▒, its *tail*, is lost. Only the tail of what lies highest is not,
//     └────────┴────────┴────────┘      and the tails below parts that begin inside a granule
//
// InGranules adds up what is in use at one step, and says what that needs at least. The argument: take the bytes that
// are in use, and all tails. Two of these overlap only if a part begins inside a granule: it may lie in the tail of the
// part below, if that ends before it begins. So they cover as many bytes as they have together, less what such parts
// have in their first granule. And they end at the peak, or above it by one tail.
#pragma once

#include <map>
#include <optional>

#include "memplan/problem.hpp"

namespace memplan {

// What all offsets of the buffers with bytes are multiples of. 1 without any.
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
  // No arena has less, if all that was added is in use at once. O(parts that begin inside + different tails).
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
  Bytes anywhere_ = 0;             // what those that begin anywhere have in their first granule, at most
  Index anywhere_count_ = 0;
};

// The same buffers, each rounded up to whole granules, and counted in granules. Its plans, times the granule, are plans
// of the problem. Without shapes, they are all of its plans that matter: if the problem has one that peaks at p bytes,
// this one has one of p bytes, rounded up. No value for a problem with pins, reserved bytes, buffers that lie together
// or branches; if the granule is 1, or if all sizes are multiples of it.
std::optional<Problem> in_granules(const Problem& problem, Bytes granule);

}  // namespace memplan
