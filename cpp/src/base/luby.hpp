// Lengths of restarts: 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 …, within a factor of a logarithm of the best sequence whatever is
// searched (Luby, Sinclair and Zuckerman 1993).
#pragma once

#include <bit>
#include <cstdint>

namespace memplan {

// The k-th length, k >= 1.
inline std::int64_t luby(std::uint64_t k) {
  while (!std::has_single_bit(k + 1)) k -= std::bit_floor(k + 1) - 1;
  return static_cast<std::int64_t>((k + 1) / 2);
}

}  // namespace memplan
