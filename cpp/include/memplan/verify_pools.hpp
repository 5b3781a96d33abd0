// Verify pools: does each buffer lie in a pool that accepts it, within the pool's capacity, and aligned? This check
// shares nothing with planners.
//
//     ├─ sram: begin, peak ─┤  ├─ dram ─────────┤     pools are ranges of one arena, apart from each other
//
// verify() checks that buffers do not overlap.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

// A pool as a range of the arena.
struct PoolRange {
  std::string name;
  std::optional<Bytes> capacity = {};
  Bytes alignment = 1;  // of every address in it
  Bytes base = 0;       // the address at which it begins
  Bytes begin = 0;      // its offset in the arena
  Bytes peak = 0;       // used bytes, from `begin` on
};

struct PoolFault {
  std::string message;  // pool or buffer, the expected value, and the value found
};

// Returns faults in a fixed order: pools that overlap or exceed their capacity, then buffers without a pool, outside of
// their pool, not aligned, or in a pool that does not accept them. `pool` has one position per buffer. `takes[buffer *
// pools.size() + pool]` says whether a pool accepts a buffer. If `takes` is empty, each pool accepts all buffers. O(n).
// Throws ProblemError for columns of a wrong length.
std::vector<PoolFault> pool_faults(const Problem& problem, std::span<const Bytes> offsets,
                                   std::span<const PoolRange> pools, std::span<const Index> pool,
                                   std::span<const char> takes = {});

}  // namespace memplan
