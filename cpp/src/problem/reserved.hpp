// Reserved ranges: their union, and the ends of the bytes between them.
#pragma once

#include <span>
#include <vector>

#include "memplan/layout.hpp"

namespace memplan {

// The same bytes in the same steps, in ranges that do not overlap. Ranges that overlap no other are left as they are.
// O(m log m) for m ranges, and O(m) for each end of a range that overlaps another.
std::vector<Reserved> united(std::vector<Reserved> ranges);

// The bytes that are reserved in all of the steps [first, last), united, by where they begin.
std::vector<Reserved> throughout(std::span<const Reserved> ranges, Step first, Step last);

// The lowest address below which so many bytes are left by ranges that do not overlap and are sorted by where they
// begin. Bytes after a range begin at a multiple of `unit`.
Bytes end_beside(std::span<const Reserved> ranges, Bytes bytes, Bytes unit = 1);

}  // namespace memplan
