// Obstruction: a set of buffers that no plan places within a capacity. Also, single buffers, pins and reserved bytes
// without which the problem fits.
//
//     a b c d   without a, b?  it may fit: they stay         halves of the buffers first, then ever smaller pieces;
//     a b       without c, d?  it cannot: they go  ─▶ …      what takes little room goes first
//
// The search leaves out some buffers, and asks whether the others fit. Each question is one run of the planner "auto".
// The answer is a plan, a proof that no plan exists, or unknown. The search begins with all buffers. If the heaviest
// clique (clique.hpp) alone exceeds the capacity, the search begins with the buffers of this clique.
//
// Complexity: at most 2n + log2 n questions for n buffers at the beginning. One more question for each buffer that
// could not be decided. Then one question for each buffer, pin and reserved range that may be enough to leave out.
// Source: the deletion filter of Chinneck and Dravnieks 1991; it deletes groups as in Zeller and Hildebrandt 2002.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memplan/limits.hpp"
#include "memplan/problem.hpp"

namespace memplan {

struct Obstruction {
  std::vector<Index> buffers;  // ascending; proven: no plan places these within the capacity
  bool irreducible = false;    // proven: without any one of `buffers`, the others fit
  Bytes lower_bound = 0;       // of the whole problem
  Bytes peak = 0;              // of the best plan of the whole problem
  // The whole problem fits if one thing is left out: one of these buffers, the pin of one of these buffers, or one of
  // these entries of problem.reserved().
  std::vector<Index> without{}, unpinned{}, unreserved{};
};

// Returns no value if a plan fits, or if there is no proof that none fits. `effort` is the parameter of "auto" for each
// question. The time limit or `stop` ends the search with the result so far.
std::optional<Obstruction> obstruction(const Problem& problem, Bytes capacity, std::int64_t effort = 20'000'000,
                                       const Limits& limits = {});

}  // namespace memplan
