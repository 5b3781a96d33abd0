// Wishes: offsets at which buffers should lie. Counts the wishes that no plan can grant.
#pragma once

#include <span>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

// Facts about wishes that need no search, for plans with a peak of at most `limit`. Wishes of buffers without bytes are
// ignored. O(n log n).
struct Wishes {
  std::vector<Index> open;  // buffers whose wishes are open: within the limit, aligned, and not pinned
  Index granted = 0;        // wishes that a pin fulfils
  Index refused = 0;        // wishes that a pin, the alignment or the limit rules out
  Index apart = 0;          // disjoint pairs of open wishes that would overlap; at least one of each is not granted
};

Wishes wishes_of(const Problem& problem, std::span<const Bytes> wishes, Bytes limit);

}  // namespace memplan
