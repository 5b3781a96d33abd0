// Bands: buffers in groups that are planned alone. The plans of the groups lie on each other.
//
//     offset ▲ ┌───┬──┬──────┐        Two cores, each with its own buffers. They rarely wait for each other,
//            │ │   └──┤      │        so nearly all buffers of the one conflict with all of the other. As
//     core 1 │ ├──────┴──────┤        conflicts, this is hard to plan. A core by itself has lifetimes, and
//            │ ├────┬─────┬──┤        is easy to plan.
//     core 0 │ └────┴─────┴──┘
//            └─▶
//
// Where all buffers of one group conflict with all of the others, nothing is lost: docs/optimiser.md has the proof.
//
// Lifetimes: the buffers of a group may have a better order than that of their lives and conflicts: an *interval
// order*, in which the sets of those before a buffer are nested. Then the buffer's life is from the place of its set in
// the nest to the first set that holds the buffer itself, and lifetimes alone say who conflicts.
//
// Groups: b *takes over* from a if, of all buffers that may follow a, it has the least before it, and all that is before
// b is before the others too. That is the buffer that a's core begins when a ends. Another core learns of that end
// later, so its next buffer has at least as much before it. Buffers that take over from one another are one group, with
// time reversed too.
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

// The most groups of which no buffer meets any of another group; perhaps one group. Their plans lie beside each other,
// all from 0 on. Of the buffers with bytes, as below. O(n^2).
std::vector<Band> separate_bands(const Problem& problem, const Deadline& deadline);

// The most groups of which all buffers conflict with all of the other groups, whatever their bytes; perhaps one group.
// O(n^2 x words).
std::vector<Band> joined_bands(const Problem& problem, const Deadline& deadline);

// Groups by what takes over from what, of a problem without shapes. Empty if there is one group only, or if "may follow"
// is no partial order. O(n^2 x words).
std::vector<Band> likely_bands(const Problem& problem, const Deadline& deadline);

}  // namespace memplan
