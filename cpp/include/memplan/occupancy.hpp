// Occupancy: which bytes of the arena are taken at any step of a span, by the buffers placed so far.
//
// It is a tree over time, whose leaves are the moments of birth. Every node keeps two sets of byte ranges: the bytes
// taken at some step below it, and the bytes taken at every step below it. Ranges that touch become one. In a dense
// plan, few ranges are left, however many buffers there are:
//
//     offset ▲   ┌──────┐┌───┐                    at some step of the node: [0, 5) and [7, 9)
//          5 │ ┌─┴──┐┌──┴┴───┤                    at every step of it:      [0, 2)
//          2 │ ├────┴┴───────┤
//            └─┴─────────────┴──▶ step
//
// A span is O(log n) nodes: what they keep for some step, and what the nodes above them keep for every step.
// Adding a buffer, and asking for a span, take O((1 + r) log n) for r ranges per node. At most O(n log n) memory;
// about 300 bytes per buffer in a layered network.
#pragma once

#include <memory_resource>
#include <span>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

struct ByteRange {
  Bytes begin = 0;
  Bytes end = 0;

  bool operator==(const ByteRange&) const = default;
};

class Occupancy {
 public:
  explicit Occupancy(const Problem& problem);
  Occupancy(const Occupancy&) = delete;

  // From now on these bytes are taken in the steps [first, last): the life of a buffer of the problem or of a part, or
  // the steps in which bytes are reserved.
  void add(Step first, Step last, ByteRange range);

  // What is taken at any step of [first, last): sorted, disjoint, not touching; valid until the next call.
  std::span<const ByteRange> taken(Step first, Step last);

 private:
  using Ranges = std::pmr::vector<ByteRange>;
  using Slot = std::size_t;  // position of a birth among the distinct ones

  Slot slots_before(Step step) const;
  void add(std::size_t node, Slot begin, Slot end, ByteRange range);
  void collect(std::size_t node, Slot begin, Slot end);

  std::vector<Step> births_;                    // distinct, ascending
  Slot leaves_;                                 // a power of two >= their number
  std::pmr::monotonic_buffer_resource memory_;  // of millions of small sets, given back at once
  std::pmr::vector<Ranges> at_some_step_{&memory_};
  std::pmr::vector<Ranges> at_every_step_{&memory_};
  Slot first_ = 0;  // the span of the call in progress
  Slot last_ = 0;
  std::vector<ByteRange> found_;
};

}  // namespace memplan
