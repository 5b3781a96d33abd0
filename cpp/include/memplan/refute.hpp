// Refute: the proof that no plan of a problem fits a capacity, written down so that others can check it without this
// search.
//
// The proof is a tree. It speaks of pairs of buffers, so it serves all features of problems. Pinned buffers and
// reserved bytes are the parts of one more buffer, the ground. It is as large as the capacity, and comes after the last
// buffer. Buffers at fixed distances are one buffer, named by the first of them that has bytes. It begins where the
// lowest of them begins, or at the next multiple of their common alignment below.
//
//   - A node adds one statement to its parent: one buffer lies at least so many bytes above another one. If a node has
//     children, it has two, of one pair: the differences that neither allows are forbidden to this pair.
//   - A node without children has no plan: by the differences alone, or because the members of a clique have too little
//     room between the lowest offset and the highest end that they may have.
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
  Index parent = kNone;                // kNone: the root, which comes first; parents come before their children
  Index lower = kNone, upper = kNone;  // buffers; kNone at the root
  Bytes difference = 0;                // the offset of `upper` less that of `lower` is at least that
  std::vector<CliqueMember> clique{};  // that has too little room; empty if differences say enough
};

struct Refutation {
  std::vector<Index> buffers;                    // that have no plan, whatever the others do
  std::vector<std::pair<Index, Index>> ordered;  // pairs that can be exchanged: the second lies no lower
  std::vector<RefutationNode> nodes;
};

// No value if a plan fits, if the work, the time limit, or room for a million nodes is spent, or if `stop` asks for an
// end. Throws UnsupportedError for problems with branches. If no clique alone is too heavy, only problems of up to 64
// buffers that are hard to place are searched.
std::optional<Refutation> refute(const Problem& problem, Bytes capacity, std::int64_t work,
                                 const PlanOptions& options = {});

}  // namespace memplan
