// Bands: buffers in groups that are planned alone. The plans of the groups lie on each other.
//
//     offset ▲ ┌───┬──┬──────┐        Two cores, each with its own buffers. Little tells what happens on
//            │ │   └──┤      │        the one before something on the other, so nearly all of the one
//     core 1 │ ├──────┴──────┤        conflict with all of the other. A core by itself has lifetimes:
//            │ ├────┬─────┬──┤        what is hard to plan as conflicts is easy then.
//     core 0 │ └────┴─────┴──┘
//            └─▶
//
// Where all buffers of one group conflict with all of the others, nothing is lost: docs/optimiser.md has the proof.
//
// Lifetimes: the buffers of a group may have a better order than that of their lives and conflicts: an *interval
// order*, in which the sets of those before a buffer are nested. Then the buffer's life is from the place of its set in
// the nest to the first set that holds the buffer itself, and lifetimes alone say who conflicts.
//
// Groups: b *takes over* from a if of all that may follow a it has the least before it, and that is before all others
// that may follow a. On a core this is what begins where a ends; what another core begins later, knowing of that end,
// has at least as much before it. Who takes over from whom is in one group, and the same with time reversed.
#pragma once

#include <vector>

#include "base/deadline.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// Buffer k of the problem is `buffers[k]` of the one that it was taken from.
struct Band {
  std::vector<Index> buffers;
  Problem problem;  // with lifetimes alone where the group has some
};

inline constexpr Index kMostInBands = 1 << 13;  // matrices of bits of 8 MiB each

// The buffers with bytes, in as many groups as there are so that none of one meets any of the others: one group where
// all hang together. Then plans of the groups lie beside each other, all from 0 on. O(n^2).
std::vector<Band> separate_bands(const Problem& problem, const Deadline& deadline);

// The buffers with bytes, in as many groups as there are so that all of one conflict with all of the others, whatever
// their bytes: one group where it does not split. O(n^2 x words).
std::vector<Band> joined_bands(const Problem& problem, const Deadline& deadline);

// Those of a problem without shapes by what takes over from what. Empty where there are no two groups, or what may
// follow what is no partial order. O(n^2 x words).
std::vector<Band> likely_bands(const Problem& problem, const Deadline& deadline);

}  // namespace memplan
