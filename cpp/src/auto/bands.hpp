// Bands: buffers in groups that are planned alone. The plans of the groups lie on each other.
//
//     offset ▲ ┌───┬──┬──────┐        Two cores, each with its own buffers. They rarely wait for each other,
//            │ │   └──┤      │        so nearly all buffers of the one conflict with all of the other. As
//     core 1 │ ├──────┴──────┤        conflicts, this is hard to plan. A core by itself has lifetimes, and
//            │ ├────┬─────┬──┤        is easy to plan.
//     core 0 │ └────┴─────┴──┘
//            └─▶
//
// If all buffers of one group conflict with all of the others, nothing is lost: docs/optimiser.md has the proof.
//
// Lifetimes: often, some lifetimes alone say which buffers of a group conflict. For each buffer, take the set of
// buffers before it. Lifetimes exist if of any two such sets one holds the other, so that they form a sequence. A
// buffer lives from the place of its own set to the place of the first set that holds the buffer.
//
// Groups: when a buffer of a core ends, the next buffer of this core may follow it at once. Other cores learn of that
// end later. So b *takes over* from a if, of all buffers that may follow a, it has the fewest buffers before it, and
// these are before all the others too. Then a and b are in one group. The same is done with time reversed.
#pragma once

#include <vector>

#include "base/deadline.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// Buffer k of the problem is `buffers[k]` of the problem that it was taken from.
struct Band {
  std::vector<Index> buffers;
  Problem problem;  // with lifetimes alone, if these can express its conflicts
};

inline constexpr Index kMostInBands = 1 << 13;  // matrices of bits of 8 MiB each

// As many groups as possible, so that no buffer conflicts with a buffer of another group; perhaps one group. Their
// plans lie beside each other, all from 0 on. Of the buffers with bytes, as below. O(n^2).
std::vector<Band> separate_bands(const Problem& problem, const Deadline& deadline);

// As many groups as possible, so that all buffers of a group conflict, whatever their bytes, with all buffers of the
// other groups; perhaps one group. O(n^2 x words).
std::vector<Band> joined_bands(const Problem& problem, const Deadline& deadline);

// Groups of buffers that take over from one another, in a problem without shapes. Empty if there is one group only, or
// if "may follow" is no partial order. O(n^2 x words).
std::vector<Band> likely_bands(const Problem& problem, const Deadline& deadline);

}  // namespace memplan
