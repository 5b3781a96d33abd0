// Wishes: where buffers should begin, and which of them no plan grants.
#pragma once

#include <span>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

// What can be said of wishes without a search, for plans that peak at or below a limit. A wish counts if its buffer has
// bytes. O(n log n).
struct Wishes {
  std::vector<Index> open;  // buffers that may be where they should: within the limit, aligned, and not pinned
  Index granted = 0;        // by pins
  Index refused = 0;        // by pins, alignment or the limit
  Index apart = 0;          // pairs of open wishes, no two with a wish in common, that would overlap
};

Wishes wishes_of(const Problem& problem, std::span<const Bytes> wishes, Bytes limit);

}  // namespace memplan
