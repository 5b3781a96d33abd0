// Occupancy: the bytes of the arena that are taken at some step of a span of steps, by the buffers placed so far.
//
// Occupancy is a tree over time. Its leaves are the moments at which buffers are born. Every node keeps two sets of
// byte ranges: the bytes taken at some step below the node, and the bytes taken at every step below the node. Ranges
// that touch become one range. So in a dense plan, there are few ranges, even with many buffers:
//
//     offset ▲   ┌──────┐┌───┐                    at some step of the node: [0, 5) and [7, 9)
//          5 │ ┌─┴──┐┌──┴┴───┤                    at every step of it:      [0, 2)
//          2 │ ├────┴┴───────┤
//            └─┴─────────────┴──▶ step
//
// A span consists of O(log n) nodes. Its taken bytes are the some-step sets of these nodes, and the every-step sets of
// the nodes above them. Adding a buffer, and asking for a span, take O((1 + r) log n) for r ranges per node. Memory is
// at most O(n log n), and about 300 bytes per buffer in a layered network.
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

  // Takes these bytes in the steps [first, last). These must be the life of a buffer or of a part, or the steps of
  // reserved bytes.
  void add(Step first, Step last, ByteRange range);

  // The bytes taken at some step of [first, last): sorted ranges that neither overlap nor touch. Valid until the next
  // call.
  std::span<const ByteRange> taken(Step first, Step last);

 private:
  using Ranges = std::pmr::vector<ByteRange>;
  using Slot = std::size_t;  // position of a birth among the distinct ones

  Slot slots_before(Step step) const;
  void add(std::size_t node, Slot begin, Slot end, ByteRange range);
  void collect(std::size_t node, Slot begin, Slot end);

  std::vector<Step> births_;                    // distinct, ascending
  Slot leaves_;                                 // a power of two >= their number
  std::pmr::monotonic_buffer_resource memory_;  // for millions of small sets, freed all at once
  std::pmr::vector<Ranges> at_some_step_{&memory_};
  std::pmr::vector<Ranges> at_every_step_{&memory_};
  Slot first_ = 0;  // the span of the call in progress
  Slot last_ = 0;
  std::vector<ByteRange> found_;
};

}  // namespace memplan
