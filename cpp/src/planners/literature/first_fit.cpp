// first_fit: simulates the order; each birth takes the lowest free block that fits,
// and the arena grows only when none does. Keeps the bottom of the arena dense.
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
