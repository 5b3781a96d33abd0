// GroupsApart: groups of buffers that are together larger than the capacity, and of which every two are alive together
// or have a price. So some of their pairs pay.
//
// A group grows from one buffer. The next buffer is the largest that may join, or by chance a smaller one. The groups
// whose pairs would pay most by themselves are kept. It looks at windows of a thousand buffers, by birth, each with a
// table of a thousand squared. At the deadline it ends with the groups that it has.
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
