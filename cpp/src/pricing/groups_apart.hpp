// GroupsApart: groups of buffers of which every two are alive together or have a price, and which are larger than the
// capacity: so some of their pairs pay.
//
// A group grows from a buffer: of all that may join, the next is one that is large, or by chance one that is less so.
// Those are kept whose pairs would pay most by themselves. Buffers are looked at in windows by birth, of a thousand.
// O(n) windows' tables of a thousand squared; ends early at the deadline, with what it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/pricing.hpp"

namespace memplan {

// A pair with a price, its buffers by their places in the group, and the most bytes that the two can share.
struct GroupLink {
  std::size_t pair, a, b;
  Bytes bytes;
};

struct GroupApart {
  std::vector<Index> members;  // ascending
  std::vector<GroupLink> links;
  Bytes excess = 0;  // of their sizes over the capacity
};

std::vector<GroupApart> groups_apart(const Problem& problem, std::span<const PairPrice> pairs, Bytes capacity,
                                     std::uint64_t seed, const Deadline& deadline);

}  // namespace memplan
