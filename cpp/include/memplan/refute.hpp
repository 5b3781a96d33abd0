// Refute: the proof that no plan fits a capacity, written down so that others can check it without this search.
//
// The proof is a tree. A node adds one thing to its parent: a buffer is placed, or buffers are ruled out below a
// height. The node claims that the remaining buffers have no plan then.
//
//   - A node with children names a step. In every plan, either the lowest buffer at that step lies at the lowest height
//     that is left, and a child places it there; or all buffers at the step lie higher, which is the last child.
//   - A node without children names a step that overflows, or has placed a buffer above the capacity.
//
// With conflicts beyond lifetimes and with shapes, a step does not say what meets. There the proof speaks of pairs:
//
//   - A node adds to its parent that one buffer lies at least so many bytes above another one. A node with children has
//     two, of the same pair: all that they leave out between them is forbidden to it.
//   - A node without children has no plan, by the differences alone, or since the members of a clique have too little
//     room between the lowest that one of them may lie and the highest that one may end.
//
// docs/optimiser.md has the arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "memplan/clique.hpp"
#include "memplan/planner.hpp"
#include "memplan/problem.hpp"

namespace memplan {

struct RefutationNode {
  Index parent;  // kNone: the root, which comes first; parents come before their children
  Index buffer;  // it is placed at the height; kNone: whatever lives at the step of the parent lies there or higher
  Bytes height;  // 0 at the root
  Step step;     // branched on; without children, where there is no room
};

struct PairRefutationNode {
  Index parent = kNone;                // kNone: the root, which comes first; parents come before their children
  Index lower = kNone, upper = kNone;  // buffers; kNone at the root
  Bytes difference = 0;                // the offset of `upper` less that of `lower` is at least that
  std::vector<CliqueMember> clique;    // that has too little room; empty where differences say enough
};

struct PairRefutation {
  std::vector<Index> buffers;                    // that have no plan, whatever the others do
  std::vector<std::pair<Index, Index>> ordered;  // those that can be exchanged: the second lies no lower
  std::vector<PairRefutationNode> nodes;
};

// Nothing where a plan fits; nor where the work, the time limit, or room for a million nodes is spent, or `stop` asks
// for an end. Throws UnsupportedError for shapes and for conflicts beyond lifetimes: `refute_pairs` takes them.
std::optional<std::vector<RefutationNode>> refute(const Problem& problem, Bytes capacity, std::int64_t work,
                                                  const PlanOptions& options = {});

// The same for every problem, by pairs; for up to 64 buffers that are hard to place, and for cliques of any number.
std::optional<PairRefutation> refute_pairs(const Problem& problem, Bytes capacity, std::int64_t work,
                                           const PlanOptions& options = {});

}  // namespace memplan
