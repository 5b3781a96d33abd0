// Refute: the proof that no plan of a problem fits a capacity, written down so that others can check it without this
// search.
//
// The proof is a tree. It speaks of pairs of buffers, so it serves whatever a problem asks. What is pinned and reserved
// is one more buffer, the ground: it is as large as the capacity, comes after the last buffer, and its parts are what
// is fixed. Buffers at fixed distances are one, called by the first that has bytes, and placed where the lowest of them
// begins, or less below than the common multiple of their alignments, at one of these.
//
//   - A node adds to its parent that one buffer lies at least so many bytes above another one. A node with children has
//     two, of the same pair: all that they leave out between them is forbidden to it.
//   - A node without children has no plan, by the differences alone, or since the members of a clique have too little
//     room between the lowest that one of them may lie and the highest that one may end.
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
  std::vector<CliqueMember> clique{};  // that has too little room; empty where differences say enough
};

struct Refutation {
  std::vector<Index> buffers;                    // that have no plan, whatever the others do
  std::vector<std::pair<Index, Index>> ordered;  // those that can be exchanged: the second lies no lower
  std::vector<RefutationNode> nodes;
};

// Nothing where a plan fits; nor where the work, the time limit, or room for a million nodes is spent, or `stop` asks
// for an end. For every problem but those with branches (UnsupportedError); where no clique alone is too heavy, only up
// to 64 buffers that are hard to place.
std::optional<Refutation> refute(const Problem& problem, Bytes capacity, std::int64_t work,
                                 const PlanOptions& options = {});

}  // namespace memplan
