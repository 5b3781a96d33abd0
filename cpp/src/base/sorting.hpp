// Sorting by one number each, in linear time: to put a million buffers in the order of time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

// The order by key[at(i)]; positions with equal keys stay in their order. O(n) per 11 bits in which keys differ.
std::vector<Index> sorted_by(std::span<const std::int64_t> key, std::vector<Index> order);

// All positions of the keys in that order.
std::vector<Index> sorted_by(std::span<const std::int64_t> key);

}  // namespace memplan
