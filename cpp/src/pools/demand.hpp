// Demand: which bytes groups use in which section of time; a section is a moment at which a largest set is in use.
//
// If all offsets in a pool are multiples of a number, and so are the begins of all parts, then whatever lies on a part
// begins at such a multiple. So sizes count rounded up to that number, and so do the capacity and the room between
// reserved bytes.
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
  explicit Demand(const PoolProblems& problems);  // O(n log n), and sections times what is reserved

  Index sections() const { return sections_; }
  std::span<const SectionUse> of(Index group) const {
    return std::span(uses_).subspan(start_[at(group)], start_[at(group) + 1] - start_[at(group)]);
  }

  Bytes bytes(const SectionUse& use, std::size_t pool) const { return align_up(use.bytes, unit_[pool]); }
  // Bytes that are not reserved; of a pool that has a capacity.
  Bytes capacity(std::size_t pool, Index section) const { return capacity_[pool][at(section)]; }

 private:
  Index sections_ = 0;
  std::vector<SectionUse> uses_;
  std::vector<std::size_t> start_;            // per group, and one more
  std::vector<Bytes> unit_;                   // per pool: divides all offsets in it
  std::vector<std::vector<Bytes>> capacity_;  // per pool and section
};

}  // namespace memplan
