// Simulation of the order: buffers are born and die step by step, and a fit chooses the free block.
#pragma once

#include <optional>
#include <vector>

#include "memplan/planner.hpp"
#include "placing/deadline.hpp"
#include "placing/free_blocks.hpp"
#include "problem/sorting.hpp"

namespace memplan {

// At each step what dies there is given back first; then what is born takes the block that
// choose(blocks, size, alignment) names, or the top of the arena when it names none; offsets[i] is its. Ties go by
// index. Once the deadline passes, those to be born keep theirs. O(n log n) besides `choose`.
template <class Choose>
void simulate(const Problem& problem, const Deadline& deadline, std::vector<Bytes>& offsets, Choose&& choose) {
  constexpr std::size_t kTicksPerLife = 32;
  const std::vector<Index> births = sorted_by(problem.first());
  const std::vector<Index> deaths = sorted_by(problem.last());
  FreeBlocks blocks;
  auto dead = deaths.begin();
  for (Index born : births) {
    for (; dead != deaths.end() && problem.last(*dead) <= problem.first(born); ++dead)
      if (problem.size(*dead) > 0) blocks.give_back(offsets[at(*dead)], problem.size(*dead));
    deadline.tick(kTicksPerLife);
    if (problem.size(born) == 0) {
      offsets[at(born)] = 0;
      continue;
    }
    const std::optional<Bytes> inside = choose(blocks, problem.size(born), problem.alignment(born));
    const Bytes offset = inside ? *inside : blocks.on_top(problem.alignment(born));
    blocks.take(offset, problem.size(born));
    offsets[at(born)] = offset;
  }
}

template <class Choose>
Placement simulate(const Problem& problem, const PlanOptions& options, Choose&& choose) {
  Placement placement;
  placement.offsets.assign(problem.size().size(), 0);
  simulate(problem, Deadline(options), placement.offsets, choose);
  return placement;
}

}  // namespace memplan
