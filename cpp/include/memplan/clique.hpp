// Clique: byte ranges of buffers of which no two may share bytes, so that a plan needs as much as they add up to.
//
//     offset ▲ ┌───┐                    0 and 1 never live together, nor 1 and 2, 2 and 0: the load is that of one.
//            │ │ 0 │┌───┐               If streams let all three run side by side, each pair conflicts, and every
//            │ └───┘│ 1 │┌───┐          plan needs all three sizes
//            │      └───┘│ 2 │
//            └───────────┴───┴─▶ step
//
// The load is the heaviest clique whose members are alive at one step. If lifetimes alone say what conflicts, no clique
// is heavier. Conflicts beyond lifetimes make heavier ones. So do shapes: different bytes of one buffer are always
// apart. So one range of it may conflict with another buffer early, a second range late, and both count.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memplan/limits.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// Bytes [begin, end) of a buffer, counted from where it starts.
struct CliqueMember {
  Index buffer = kNone;
  Bytes begin = 0;
  Bytes end = 0;

  bool operator==(const CliqueMember&) const = default;
};

// No plan peaks below `bytes`: the sizes of the members. If the alignments of a plain buffer and of all that it
// conflicts with have a common divisor, its size is rounded up to a multiple of that. The size of the member with most
// padding is not.
struct Clique {
  Bytes bytes = 0;
  std::vector<CliqueMember> members;  // by buffer, then begin
};

inline constexpr std::int64_t kCliqueWork = 40'000'000;  // words of 64 bits looked at

// The heaviest clique that was found: the heaviest of all if the work suffices, else no lighter than the load. If
// nothing conflicts beyond lifetimes and no buffer has a shape, it is the clique of the load, without a search. The
// time limit and `stop` of the limits end the search with its best so far. O(n log n + pairs), then as the work allows.
Clique heaviest_clique(const Problem& problem, const Limits& limits = {}, std::int64_t work = kCliqueWork);

// For each range of bytes, a clique that it is in, as heavy as little work makes it. A clique that is part of another
// is left out. Empty if there are more than a thousand ranges. O(ranges^2 x words).
std::vector<Clique> some_cliques(const Problem& problem, const Limits& limits = {});

}  // namespace memplan
