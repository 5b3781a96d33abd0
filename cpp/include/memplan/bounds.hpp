// Bounds: numbers of bytes below which no plan can peak.
#pragma once

#include <cstdint>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

// The load over time as a staircase: bytes[k] are alive in [step[k], step[k + 1]). Steps ascend, and the last entry has
// 0 bytes. Without buffers, both columns are empty. O(n log n).
struct LoadCurve {
  std::vector<Step> step;
  std::vector<Bytes> bytes;
};

LoadCurve load_curve(const Problem& problem);

// The load: the largest sum of bytes alive at one step. Every plan peaks at or above it. O(n log n).
Bytes load(const Problem& problem);

// The load, with padding for alignments. At each step, every buffer but the lowest begins at a multiple of its
// alignment. Every plan peaks at or above this bound. It is at least the load. For a problem with branches, it is the
// load. O(n log n), and for each step that may need more than all earlier steps, the number of different ends of parts
// within an alignment.
Bytes aligned_load(const Problem& problem);

// The end of the highest pinned buffer. Every plan peaks at or above this end. O(n).
Bytes end_of_pins(const Problem& problem);
// The end of the highest pinned buffer or reserved range. Reserved ranges may reach above a plan.
Bytes end_of_fixed(const Problem& problem);

// The first step with the largest load, and the buffers with bytes in use at this step: most bytes first, then by
// index. O(n log n).
struct TightestStep {
  struct User {
    Index buffer;
    Bytes bytes;  // in use at the step; a shaped buffer may use only a part
  };

  Step step = 0;
  Bytes bytes = 0;
  std::vector<User> users;
};

TightestStep tightest_step(const Problem& problem);

// The number of pairs of buffers whose lifetimes intersect. O(n log n).
std::int64_t overlapping_pairs(const Problem& problem);

}  // namespace memplan
