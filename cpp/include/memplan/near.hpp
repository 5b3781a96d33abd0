// Near: each buffer at a wished offset, or as little above it as possible.
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

// Places buffers in the order of their wishes, each at its wish or at the lowest free offset above. Buffers without a
// wish (kNowhere) come last, and get the lowest free offset. Fixed distances between buffers are ignored. O(n r log n)
// for r byte ranges in use at a time. Throws TimeLimitError or InterruptedError if `limits` end the call.
std::vector<Bytes> placed_near(const Problem& problem, std::span<const Bytes> wishes, const Limits& limits = {});

}  // namespace memplan
