// first_fit: simulates births and deaths in order. Each buffer takes the lowest free block that fits. The arena grows
// only if no block fits. The bottom of the arena stays dense.
//
// Complexity: O(n log n); badly aligned blocks are passed over one by one. Guarantee: none.
// Source: the overview of greedy, beam and exhaustive planning; Knuth, The Art of Computer Programming 1, 2.5.
#include "placing/simulation.hpp"
#include "planners/planners.hpp"

namespace memplan {

Placement first_fit(const Problem& problem, const PlanOptions& options) {
  return simulate(problem, options,
                  [](const FreeBlocks& blocks, Bytes size, Bytes alignment) { return blocks.lowest(size, alignment); });
}

}  // namespace memplan
