// Sections: time as the search sees it. Only moments at which a birth is followed by a death matter: what is alive
// there is a largest set of buffers that are alive together, and every other moment's is contained in one of them.
//
//     ├────┤ ├─────┤          births and deaths      a section per moment, in their order; an item, a buffer
//        ├─────┤  ├────┤                              that has bytes, covers a run of them
//     ▲  ▲     ▲  ▲
//        0     1  2           sections
//
// Alignment stays with the items. Shapes and conflicts beyond lifetimes are not seen here.
#pragma once

#include <cstddef>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

struct Sections {
  explicit Sections(const Problem& problem);  // O(n log n)

  Index items() const { return static_cast<Index>(buffer.size()); }

  Index count = 0;
  // Per item, in an order that does not depend on that of the buffers, but for identical ones:
  std::vector<Index> buffer;       // of the problem
  std::vector<Index> first, last;  // it covers the sections [first, last)
  std::vector<Bytes> size, alignment;
  std::vector<Index> twin;  // the first item that is identical to it
  // Per section, and one more: the first item that begins there or later.
  std::vector<Index> begins;
};

}  // namespace memplan
