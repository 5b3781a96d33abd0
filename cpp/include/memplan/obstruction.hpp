// Obstruction: buffers that keep a problem from fitting a capacity, and what would have to go for it to fit.
//
//     a b c d   without a, b?  it may fit: they stay         halves of the buffers first, then ever smaller pieces;
//     a b       without c, d?  it cannot: they go  ─▶ …      what takes little room goes first
//
// Each question is one run of the planner "auto": a plan, or the proof that there is none. If the heaviest clique is
// too heavy, the search begins with its buffers. Complexity: at most 3n questions for n buffers to begin with, then one
// for each thing that may be enough. Source: the deletion filter of Chinneck and Dravnieks 1991, by pieces as in Zeller
// and Hildebrandt 2002.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memplan/limits.hpp"
#include "memplan/problem.hpp"

namespace memplan {

struct Obstruction {
  std::vector<Index> buffers;  // ascending; proven: no plan has these within the capacity
  bool irreducible = false;    // proven: if any one of them is taken away, the others fit
  Bytes lower_bound = 0;       // of the whole problem
  Bytes peak = 0;              // of its best plan
  // The whole fits without any one of these buffers, pins of buffers, or rows of what is reserved.
  std::vector<Index> without{}, unpinned{}, unreserved{};
};

// No value if a plan fits, or if it is not proven that none fits. `effort` is that of "auto" for each question. The
// time limit and `stop` end the search with what it has.
std::optional<Obstruction> obstruction(const Problem& problem, Bytes capacity, std::int64_t effort = 20'000'000,
                                       const Limits& limits = {});

}  // namespace memplan
