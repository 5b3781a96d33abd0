// Orders of buffers: most greedy planners are an order and a fit. Buffers without bytes are in no order; they lie at 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/problem.hpp"

namespace memplan {

std::vector<Index> with_bytes(const Problem& problem);  // by index
std::vector<Index> by_birth(const Problem& problem);    // then by index
std::vector<Index> by_death(const Problem& problem);    // then by index

// Lives may be longer than int64 holds; any two steps are less than 2^64 apart.
inline std::uint64_t length_of_life(const Problem& problem, Index i) {
  return static_cast<std::uint64_t>(problem.last(i)) - static_cast<std::uint64_t>(problem.first(i));
}

// Per buffer with bytes, the number of other buffers with bytes that it must be apart from. `buffers` are all buffers
// with bytes. O(n log n + conflicts beyond lifetimes).
std::vector<std::int64_t> conflict_counts(const Problem& problem, std::span<const Index> buffers,
                                          const Deadline& deadline);

}  // namespace memplan
