// Demand: which bytes wholes use in which section of time; a section is a moment at which a largest set is in use.
//
// Where all offsets in a pool have a common divisor, and all parts of shapes begin at multiples of it in their buffers,
// whatever lies on a part begins at a multiple too: there it takes its size rounded up, out of a capacity that is
// rounded up too. So does what is between reserved bytes.
#pragma once

#include <span>
#include <vector>

#include "pools/wholes.hpp"

namespace memplan {

// A part of a whole is in use in the sections [first, last).
struct SectionUse {
  Index first;
  Index last;
  Bytes bytes;
};

class Demand {
 public:
  explicit Demand(const Wholes& wholes);  // O(n log n), and sections times what is reserved

  Index sections() const { return sections_; }
  std::span<const SectionUse> of(Index whole) const {
    return std::span(uses_).subspan(start_[at(whole)], start_[at(whole) + 1] - start_[at(whole)]);
  }

  Bytes bytes(const SectionUse& use, std::size_t pool) const { return align_up(use.bytes, unit_[pool]); }
  // Bytes that are not reserved; of a pool that has a capacity.
  Bytes capacity(std::size_t pool, Index section) const { return capacity_[pool][at(section)]; }

 private:
  Index sections_ = 0;
  std::vector<SectionUse> uses_;
  std::vector<std::size_t> start_;            // per whole, and one more
  std::vector<Bytes> unit_;                   // per pool: divides all offsets in it
  std::vector<std::vector<Bytes>> capacity_;  // per pool and section
};

}  // namespace memplan
