// Units: the meaning of the core's numbers, and arithmetic that cannot wrap around.
//
// Bytes and steps are signed 64-bit. All ranges are half-open: a lifetime [first, last) contains first, but not last.
// The same holds for byte ranges [offset, offset + size).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace memplan {

using Bytes = std::int64_t;  // sizes, offsets, alignments
using Step = std::int64_t;   // moments: op k of an order runs at step k
using Index = std::int32_t;  // position of a tensor, op, storage or buffer in its table

inline constexpr Bytes kMaxBytes = std::numeric_limits<Bytes>::max();
inline constexpr Index kNone = -1;     // "no such tensor, op, storage or buffer"
inline constexpr Bytes kNowhere = -1;  // the offset of a buffer or tensor without a place

// A position (>= 0) as containers count: column[at(i)].
constexpr std::size_t at(std::int64_t position) { return static_cast<std::size_t>(position); }

// a + b for a, b >= 0; no value if the sum exceeds int64.
constexpr std::optional<Bytes> checked_add(Bytes a, Bytes b) {
  if (a > kMaxBytes - b) return std::nullopt;
  return a + b;
}

// a + b for b >= 0, or the largest int64 if the sum exceeds it. For offsets that are not checked yet.
constexpr Bytes saturated_add(Bytes a, Bytes b) { return a > kMaxBytes - b ? kMaxBytes : a + b; }

// The least multiple of `alignment` (>= 1, any integer) that is >= offset (>= 0). A Problem guarantees
// that this stays within int64 for every offset that a planner can reach.
constexpr Bytes align_up(Bytes offset, Bytes alignment) {
  const Bytes excess = offset % alignment;
  return excess == 0 ? offset : offset + (alignment - excess);
}

// The largest multiple that is <= offset, of either sign.
constexpr Bytes align_down(Bytes offset, Bytes alignment) {
  const Bytes excess = offset % alignment;
  return offset - (excess < 0 ? excess + alignment : excess);
}

}  // namespace memplan
