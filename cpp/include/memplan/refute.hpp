// Refute: the proof that no plan fits a capacity, written down so that others can check it without this search.
//
// The proof is a tree. A node is what its parent is and one thing more, and says that what is left to place has no plan
// then. One with children names the step at which every plan is in one of them: the lowest buffer there lies at the
// lowest height that is left, and is one of those; or all there lie higher. One without names a step that overflows,
// or has placed a buffer above the capacity. docs/optimiser.md has what follows from what.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memplan/planner.hpp"
#include "memplan/problem.hpp"

namespace memplan {

struct RefutationNode {
  Index parent;  // kNone: the root, which comes first; parents come before their children
  Index buffer;  // it is placed at the height; kNone: whatever lives at the step of the parent lies there or higher
  Bytes height;  // 0 at the root
  Step step;     // branched on; without children, where there is no room
};

// Nothing where a plan fits; nor where the work, the time limit, or room for a million nodes is spent, or `stop` asks
// for an end. Throws UnsupportedError for shapes and for conflicts beyond lifetimes.
std::optional<std::vector<RefutationNode>> refute(const Problem& problem, Bytes capacity, std::int64_t work,
                                                  const PlanOptions& options = {});

}  // namespace memplan
