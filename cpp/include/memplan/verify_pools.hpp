// Verify pools: does each buffer lie in a pool that accepts it, as the pool demands? It shares nothing with planners.
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
  Bytes begin = 0;      // where it begins in the arena
  Bytes peak = 0;       // bytes of it that are used
};

struct PoolFault {
  std::string message;  // the pool or buffer, what was expected and what was found
};

// What is wrong, in a fixed order: pools that meet, or need more than they have; buffers in no pool, outside of theirs,
// at an address that is not aligned, or in a pool that does not take them. `pool` has one position per buffer, `takes`
// one entry per buffer and pool, the pools of a buffer in a row; empty: all take all. O(n). Throws ProblemError for
// columns of another length.
std::vector<PoolFault> pool_faults(const Problem& problem, std::span<const Bytes> offsets,
                                   std::span<const PoolRange> pools, std::span<const Index> pool,
                                   std::span<const char> takes = {});

}  // namespace memplan
