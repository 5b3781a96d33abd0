// Refute: the proof that no plan fits a capacity, written down so that others can check it without this search.
//
// The proof is a tree. A node adds one thing to its parent: a buffer is placed, or buffers are ruled out below a
// height. The node claims that the remaining buffers have no plan then.
//
//   - A node with children names a step. In every plan, either the lowest buffer at that step lies at the lowest height
//     that is left, and a child places it there; or all buffers at the step lie higher, which is the last child.
//   - A node without children names a step that overflows, or has placed a buffer above the capacity.
//
// docs/optimiser.md has the argument.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"

namespace memplan {

struct RefutationNode {
  Index parent;  // kNone: the root, which comes first; parents come before their children
  Index buffer;  // it is placed at the height; kNone: whatever lives at the step of the parent lies there or higher
  Bytes height;  // 0 at the root
  Step step;     // branched on; without children, where there is no room
};

// Nothing where a plan fits; nor where the work, the time limit, or room for a million nodes is spent, or `stop` asks
// for an end. Throws UnsupportedError for all but plain buffers: refute_pairs.hpp takes the others.
std::optional<std::vector<RefutationNode>> refute(const Problem& problem, Bytes capacity, std::int64_t work,
                                                  const PlanOptions& options = {});

}  // namespace memplan
