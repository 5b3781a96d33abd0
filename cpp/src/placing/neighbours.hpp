// Neighbours: who conflicts with whom, as lists; for planners that think in a conflict graph.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// Per buffer, the buffers with bytes that it must be apart from: their lifetimes intersect, or the problem says so.
// Shapes are not considered. Neighbours of buffer i, which has bytes, ascend.
class Neighbours {
 public:
  // O(n log n + pairs) time, 8 bytes per pair.
  Neighbours(const Problem& problem, const Deadline& deadline);

  std::span<const Index> of(Index i) const {
    const auto begin = start_[at(i)];
    return std::span(list_).subspan(begin, start_[at(i) + 1] - begin);
  }

 private:
  std::vector<std::size_t> start_;  // per buffer, and one more
  std::vector<Index> list_;
};

}  // namespace memplan
