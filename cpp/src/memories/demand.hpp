// Demand: which bytes buffers use in which section of time; a section is a moment at which a largest set is in use.
//
// Where all offsets in a pool have a common divisor, whatever lies on a buffer begins at a multiple of it: there the
// buffer takes its size rounded up, out of a capacity that is rounded up too.
#pragma once

#include <span>
#include <vector>

#include "memplan/memories.hpp"

namespace memplan {

// A part of a buffer is in use in the sections [first, last).
struct SectionUse {
  Index first;
  Index last;
  Bytes bytes;
  bool whole;  // all of the buffer, not a part of a shape
};

class Demand {
 public:
  explicit Demand(const MemoryRequest& request);  // O(n log n)

  Index sections() const { return sections_; }
  std::span<const SectionUse> of(Index buffer) const {
    return std::span(uses_).subspan(start_[at(buffer)], start_[at(buffer) + 1] - start_[at(buffer)]);
  }

  Bytes bytes(const SectionUse& use, std::size_t pool) const {
    return use.whole ? align_up(use.bytes, unit_[pool]) : use.bytes;
  }
  Bytes capacity(std::size_t pool) const { return capacity_[pool]; }  // 0 where it has none

 private:
  Index sections_ = 0;
  std::vector<SectionUse> uses_;
  std::vector<std::size_t> start_;  // per buffer, and one more
  std::vector<Bytes> unit_;         // per pool: divides all offsets in it
  std::vector<Bytes> capacity_;
};

}  // namespace memplan
