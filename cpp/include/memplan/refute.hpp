// Refute: a proof that no plan of a problem fits a capacity. The proof is written down, so that it can be checked
// without this search.
//
// The proof is a tree of statements about pairs of buffers. Pinned buffers and reserved bytes become parts of one more
// buffer, the *ground*. The ground is as large as the capacity, and its index is the number of buffers. Buffers at
// fixed distances count as one buffer, with the index of the first of them that has bytes. This buffer begins where the
// lowest of them begins, or at the next multiple of their common alignment below.
//
//   - A node adds one statement to its parent: one buffer lies at least so many bytes above another. A node has no
//     children, or two children with statements about one pair. All differences of this pair that neither child allows
//     are forbidden.
//   - A node without children has no plan. Either the differences contradict each other, or the members of a clique
//     have too little room between their lowest possible offset and their highest possible end.
//
// docs/optimiser.md has the argument.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "memplan/clique.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"

namespace memplan {

struct RefutationNode {
  Index parent = kNone;                // kNone for the root, which is first; parents come before children
  Index lower = kNone, upper = kNone;  // buffers; kNone at the root
  Bytes difference = 0;                // offset of `upper` - offset of `lower` >= difference
  std::vector<CliqueMember> clique{};  // with too little room; empty if differences contradict each other
};

struct Refutation {
  std::vector<Index> buffers;                    // these alone have no plan
  std::vector<std::pair<Index, Index>> ordered;  // exchangeable pairs; by symmetry, the second lies no lower
  std::vector<RefutationNode> nodes;
};

// Returns no value if a plan fits, or if the search ends early: by the work, the time limit, `stop`, or a million
// nodes. Throws UnsupportedError for problems with branches. If no clique alone exceeds the capacity, only problems
// with at most 64 buffers that are hard to place are searched.
std::optional<Refutation> refute(const Problem& problem, Bytes capacity, std::int64_t work,
                                 const PlanOptions& options = {});

}  // namespace memplan
