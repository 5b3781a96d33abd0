// Clique: a set of byte ranges of buffers of which no two may share bytes. So every plan needs at least their sum.
//
//     offset ▲ ┌───┐                    0 and 1 never live together, nor 1 and 2, 2 and 0: the load is that of one.
//            │ │ 0 │┌───┐               If streams let all three run side by side, each pair conflicts, and every
//            │ └───┘│ 1 │┌───┐          plan needs all three sizes
//            │      └───┘│ 2 │
//            └───────────┴───┴─▶ step
//
// The load is the heaviest clique whose members are alive at one step. If all conflicts come from lifetimes, no clique
// is heavier. Other conflicts may make heavier cliques. So may shapes: different bytes of one buffer are always apart.
// So one range of a buffer may conflict with another buffer early, a second range late, and both ranges count.
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

// No plan peaks below `bytes`: the sizes of the members. If a buffer without a shape and all conflicting buffers have
// alignments with a common divisor, the size counts rounded up to a multiple of the divisor. The size of the member
// with the most padding is not rounded.
struct Clique {
  Bytes bytes = 0;
  std::vector<CliqueMember> members;  // by buffer, then begin
};

inline constexpr std::int64_t kCliqueWork = 40'000'000;  // in words of 64 bits that the search reads

// The heaviest clique that is found. If the work is enough, no clique is heavier. Otherwise the clique is at least as
// heavy as the load. If there are no conflicts beyond lifetimes and no shapes, it is the clique of the load, without a
// search. The time limit and `stop` end the search with its best clique so far. O(n log n + pairs), then as the work
// allows.
Clique heaviest_clique(const Problem& problem, const Limits& limits = {}, std::int64_t work = kCliqueWork);

// For each range of bytes, a heavy clique with this range, found with little work. A clique that is part of another
// clique is left out. Empty if there are more than a thousand ranges. O(ranges^2 x words).
std::vector<Clique> some_cliques(const Problem& problem, const Limits& limits = {});

}  // namespace memplan
