// Near: each buffer at the offset where it should be, or as little above as possible.
//
//     offset ▲ ┌───┐  wished   ┌───┐  near    a buffer that has grown pushes up what lies on it, and nothing else
//            │ ├───┤    ──▶    ├───┤
//            │ └───┘           │   │
//            └───────▶ step    └───┘
#pragma once

#include <span>
#include <vector>

#include "memplan/limits.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// Places buffers in the order of their wishes, each at its wish or at the lowest free offset above it. Buffers without
// a wish (kNowhere) come last, and go as low as they can. Distances do not count. O(n r log n) for r byte ranges in use
// at a time. Throws TimeLimitError or InterruptedError if the limits end it.
std::vector<Bytes> placed_near(const Problem& problem, std::span<const Bytes> wishes, const Limits& limits = {});

}  // namespace memplan
