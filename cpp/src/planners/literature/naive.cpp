// naive: gives every buffer its own bytes, one after another in the problem's order. In a graph, no tensors share bytes
// by choice: every tensor that is no view has its own bytes.
//
// Pinned buffers lie at their pins. All others lie above these and above reserved bytes.
//
// Complexity: O(n). Guarantee: none; other planners are compared with it.
#include "memplan/bounds.hpp"
#include "planners/planners.hpp"

namespace memplan {

Placement naive(const Problem& problem, const PlanOptions&) {
  Placement placement;
  placement.offsets.reserve(problem.size().size());
  Bytes top = end_of_fixed(problem);
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.pin(i) != kNowhere) {
      placement.offsets.push_back(problem.pin(i));
      continue;
    }
    const Bytes offset = problem.size(i) > 0 ? align_up(top, problem.alignment(i)) : 0;
    placement.offsets.push_back(offset);
    if (problem.size(i) > 0) top = offset + problem.size(i);
  }
  return placement;
}

}  // namespace memplan
