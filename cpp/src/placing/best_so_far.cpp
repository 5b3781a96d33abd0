#include "placing/best_so_far.hpp"

#include <algorithm>

#include "placing/in_order.hpp"
#include "placing/simulation.hpp"

namespace memplan {

namespace {

void place_by_birth(const Problem& problem, const Deadline& deadline, std::vector<Bytes>& offsets) {
  if (problem.conflicts() != nullptr) return place_in_order(problem, by_birth(problem), deadline, offsets, lowest_fit);
  simulate(problem, deadline, offsets,
           [](const FreeBlocks& blocks, Bytes size, Bytes alignment) { return blocks.lowest(size, alignment); });
}

void put_the_rest_on_top(const Problem& problem, std::vector<Bytes>& offsets) {
  Bytes top = 0;
  for (Index i = 0; i < problem.count(); ++i)
    if (offsets[at(i)] != kNowhere) top = std::max(top, offsets[at(i)] + problem.size(i));
  for (Index i = 0; i < problem.count(); ++i) {
    if (offsets[at(i)] != kNowhere) continue;
    offsets[at(i)] = problem.size(i) > 0 ? align_up(top, problem.alignment(i)) : 0;
    if (problem.size(i) > 0) top = offsets[at(i)] + problem.size(i);
  }
}

}  // namespace

Placement first_plan(const Problem& problem, const Deadline& deadline) {
  Placement placement;
  placement.offsets.assign(problem.size().size(), kNowhere);
  try {
    place_by_birth(problem, deadline, placement.offsets);
  } catch (const EndedError&) {
  }
  put_the_rest_on_top(problem, placement.offsets);
  return placement;
}

}  // namespace memplan
