// Simulation of the order: buffers are born and die step by step, and a fit chooses the free block.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "memplan/planner.hpp"
#include "placing/free_blocks.hpp"

namespace memplan {

// At each step what dies there is given back first; then what is born takes the block that
// choose(blocks, size, alignment) names, or the top of the arena when it names none. Ties go by index.
// O(n log n) besides `choose`.
template <class Choose>
Placement simulate(const Problem& problem, Choose&& choose) {
  std::vector<Index> births(problem.size().size());
  std::iota(births.begin(), births.end(), Index{0});
  std::vector<Index> deaths = births;
  std::stable_sort(births.begin(), births.end(), [&](Index a, Index b) { return problem.first(a) < problem.first(b); });
  std::stable_sort(deaths.begin(), deaths.end(), [&](Index a, Index b) { return problem.last(a) < problem.last(b); });

  Placement placement;
  placement.offsets.assign(births.size(), 0);
  FreeBlocks blocks;
  auto dead = deaths.begin();
  for (Index born : births) {
    for (; dead != deaths.end() && problem.last(*dead) <= problem.first(born); ++dead)
      if (problem.size(*dead) > 0) blocks.give_back(placement.offsets[at(*dead)], problem.size(*dead));
    if (problem.size(born) == 0) continue;
    const std::optional<Bytes> inside = choose(blocks, problem.size(born), problem.alignment(born));
    const Bytes offset = inside ? *inside : blocks.on_top(problem.alignment(born));
    blocks.take(offset, problem.size(born));
    placement.offsets[at(born)] = offset;
  }
  return placement;
}

}  // namespace memplan
