// best_fit: simulates births and deaths in order. Each buffer takes the tightest free block that fits, the lowest among
// equals. The arena grows only if no block fits. Remainders are the smallest possible.
//
// Complexity: O(n log n); badly aligned blocks are passed over one by one. Guarantee: none.
// Source: the overview of greedy, beam and exhaustive planning; Knuth, The Art of Computer Programming 1, 2.5.
#include "placing/simulation.hpp"
#include "planners/planners.hpp"

namespace memplan {

Placement best_fit(const Problem& problem, const PlanOptions& options) {
  return simulate(problem, options, [](const FreeBlocks& blocks, Bytes size, Bytes alignment) {
    return blocks.tightest(size, alignment);
  });
}

}  // namespace memplan
