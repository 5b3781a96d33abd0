// Bounds: what no plan can go below.
#pragma once

#include <cstdint>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

// The load over time as a staircase: bytes[k] are alive in [step[k], step[k + 1]). Steps ascend, the last
// entry has 0 bytes; both columns are empty when there are no buffers. O(n log n).
struct LoadCurve {
  std::vector<Step> step;
  std::vector<Bytes> bytes;
};

LoadCurve load_curve(const Problem& problem);

// The load: the largest sum of bytes alive at one step. Every plan peaks at or above it. O(n log n).
Bytes load(const Problem& problem);

// The load with what alignments cost: at each step, what lies on something else begins at a multiple of its alignment.
// Every plan peaks at or above it. At least the load, and the load itself for a problem with branches.
// O(n log n), and the different ends of parts within an alignment for each step that may need more than those before.
Bytes aligned_load(const Problem& problem);

// Where the highest pinned buffer ends: every plan peaks at or above it. O(n).
Bytes end_of_pins(const Problem& problem);
// Where the highest pin or reserved range ends. Reserved ranges may reach above a plan.
Bytes end_of_fixed(const Problem& problem);

// The first step of the largest load, and who makes it: buffers with bytes in use there, most first, then by index.
// O(n log n).
struct TightestStep {
  struct User {
    Index buffer;
    Bytes bytes;  // in use there: of a shaped buffer, perhaps not all
  };

  Step step = 0;
  Bytes bytes = 0;
  std::vector<User> users;
};

TightestStep tightest_step(const Problem& problem);

// The number of pairs of buffers whose lifetimes intersect. O(n log n).
std::int64_t overlapping_pairs(const Problem& problem);

}  // namespace memplan
