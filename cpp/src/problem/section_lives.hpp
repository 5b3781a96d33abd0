// Sections: time without its superfluous steps. A section is a moment after births and before the next death. The
// buffers alive at any step are among those of some section.
//
//     ──────┐   ┌──────         births, then deaths: one section; four of them here, and the buffer in
//     ──┐ ┌─┴─┐ │  ┌───         the middle covers the sections [1, 3)
//       └─┘   └─┴──┘
//      0   1   2    3
//
// Two buffers are alive together exactly if they share a section.
#pragma once

#include <vector>

#include "base/deadline.hpp"
#include "memplan/problem.hpp"

namespace memplan {

struct SectionLives {
  std::vector<Index> begin;  // per buffer; a buffer without bytes covers no section
  std::vector<Index> end;
  std::vector<Bytes> load;  // per section, as if buffers of several parts were whole

  Index sections() const { return static_cast<Index>(load.size()); }
};

// O(n log n).
SectionLives section_lives(const Problem& problem, const Deadline& deadline);

// Per buffer, the largest load of a section that it covers. O(n log n).
std::vector<Bytes> load_covered(const SectionLives& lives, const Deadline& deadline);

}  // namespace memplan
