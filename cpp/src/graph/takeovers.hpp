// Takeovers: an op that writes bytes comes after all ops that have used them since they were last written.
//
//     bytes ▲   0     1     2     3      op 3 writes bytes that op 0 wrote, and ops 1 and 2 read.
//           │ write  read  read write    It waits for all three; a later writer waits for op 3 alone.
//           └───────────────────────▶ op
#pragma once

#include <span>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

// Op `op` reads or writes bytes [begin, end) of one region.
struct Use {
  Index op;
  Bytes begin;
  Bytes end;
  bool writes;
};

// Per op, the other ops that have used bytes which it writes, since these bytes were last written; ascending. `regions`
// have the uses of each region, by op. O((uses + takeovers) log uses).
std::vector<std::vector<Index>> takeovers_of(std::span<const std::vector<Use>> regions, Index ops);

}  // namespace memplan
