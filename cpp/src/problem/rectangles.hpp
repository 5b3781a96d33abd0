// Rectangles of bytes and steps, some of which may overlap.
#pragma once

#include <vector>

#include "memplan/units.hpp"

namespace memplan {

struct Rectangle {
  Bytes begin = 0;
  Bytes end = 0;
  Step first = 0;
  Step last = 0;
};

// Whether two of them share a byte in a step. A sweep in the order of births: O(m log m).
bool any_overlap(const std::vector<Rectangle>& rectangles);

}  // namespace memplan
