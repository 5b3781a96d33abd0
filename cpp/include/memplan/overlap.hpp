// Overlap: among the buffers marked so far, those whose lifetimes intersect a given one.
//
// A tree over the buffers in order of birth keeps, for each range of births, the latest death among the
// marked ones. A query [first, last) looks only at births before `last`, and only where some death is after
// `first`: O((1 + found) log n); marking is O(log n); 12 bytes per buffer and the tree's 16.
#pragma once

#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

class OverlapIndex {
 public:
  explicit OverlapIndex(const Problem& problem);

  // From now on queries find `buffer`.
  void mark(Index buffer);

  // Calls found(buffer) for each marked buffer whose lifetime intersects [first, last), by birth.
  template <class Found>
  void for_each_overlapping(Step first, Step last, Found&& found) const {
    const Index end = births_before(last);
    if (end > 0) visit(1, 0, leaves_, end, first, found);
  }

 private:
  Index births_before(Step step) const;

  template <class Found>
  void visit(Index node, Index begin, Index end, Index limit, Step after, Found& found) const {
    if (begin >= limit || latest_death_[static_cast<std::size_t>(node)] <= after) return;
    if (end - begin == 1) {
      found(by_birth_[static_cast<std::size_t>(begin)]);
      return;
    }
    const Index middle = begin + (end - begin) / 2;
    visit(2 * node, begin, middle, limit, after, found);
    visit(2 * node + 1, middle, end, limit, after, found);
  }

  const Problem& problem_;
  Index leaves_;                    // a power of two >= the number of buffers
  std::vector<Index> by_birth_;     // buffers in order of first step
  std::vector<Index> rank_;         // position of each buffer in by_birth_
  std::vector<Step> latest_death_;  // node 1 is the root; leaves begin at leaves_
};

}  // namespace memplan
