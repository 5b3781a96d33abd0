// Reuse: who takes over whose bytes in a plan.
#pragma once

#include <span>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

// Per buffer, the first buffer born after it that takes over some of its bytes, or kNone. `offsets` is a valid
// plan of the problem. O((n + takeovers) log n).
std::vector<Index> reused_by(const Problem& problem, std::span<const Bytes> offsets);

}  // namespace memplan
