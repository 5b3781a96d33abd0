// Sections: a problem as the search by valleys sees it. Time is cut as in problem/section_lives.hpp. An item is a
// buffer that has bytes.
//
// If the alignments of an item and of all that conflicts with it have a common divisor, each item that lies on it
// begins at a multiple of that. So its size is rounded up, by its *padding*. Only the item at the very top does not
// need it.
//
// It ignores shapes, and conflicts beyond lifetimes.
#pragma once

#include <cstddef>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/problem.hpp"

namespace memplan {

struct Sections {
  Sections(const Problem& problem, const Deadline& deadline);  // O(n log n)

  // From now on, item x begins at lowest[x] or higher. Items are twins only if that is the same.
  void begin_from(std::vector<Bytes> lowest);

  Index items() const { return static_cast<Index>(buffer.size()); }

  Index count = 0;
  // Per item. The order of items does not depend on that of the buffers, except for identical items:
  std::vector<Index> buffer;       // of the problem
  std::vector<Index> first, last;  // it covers the sections [first, last)
  std::vector<Bytes> size;         // rounded up
  std::vector<Bytes> padding;      // that was added
  std::vector<Bytes> alignment;
  std::vector<Index> twin;    // the first item that is identical to it
  std::vector<Bytes> lowest;  // the least offset that it may have; empty: 0
  // Per section, and one more: the first item that begins there or later.
  std::vector<Index> begins;
  // Per section: the bytes alive, rounded up, except the item with the most padding. No plan peaks below any of them.
  std::vector<Bytes> load;

  std::int64_t covered = 0;  // sections, by all items together

  Bytes highest_load() const;  // 0 without sections

 private:
  void pad(const Deadline& deadline);
  void add_up(const Deadline& deadline);
};

}  // namespace memplan
