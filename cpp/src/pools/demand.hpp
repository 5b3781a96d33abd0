// Demand: how many bytes each group of buffers uses in each section of time. A section is a moment between a birth and
// the next death.
//
// If a number divides all offsets in a pool, and all begins of parts, nothing can use the bytes between the end of a
// part and the next multiple of this number. So sizes are rounded up to multiples, and so are the capacity and the room
// between reserved bytes.
#pragma once

#include <span>
#include <vector>

#include "pools/pool_problems.hpp"

namespace memplan {

// A part of a group is in use in the sections [first, last).
struct SectionUse {
  Index first;
  Index last;
  Bytes bytes;
};

class Demand {
 public:
  explicit Demand(const PoolProblems& problems);  // O(n log n + sections · reserved ranges)

  Index sections() const { return sections_; }
  std::span<const SectionUse> of(Index group) const {
    return std::span(uses_).subspan(start_[at(group)], start_[at(group) + 1] - start_[at(group)]);
  }

  Bytes bytes(const SectionUse& use, std::size_t pool) const { return align_up(use.bytes, unit_[pool]); }
  // For a pool with a capacity: its bytes that are not reserved.
  Bytes capacity(std::size_t pool, Index section) const { return capacity_[pool][at(section)]; }

 private:
  Index sections_ = 0;
  std::vector<SectionUse> uses_;
  std::vector<std::size_t> start_;            // per group, and one more
  std::vector<Bytes> unit_;                   // per pool: divides all offsets in it
  std::vector<std::vector<Bytes>> capacity_;  // per pool and section
};

}  // namespace memplan
