// Blocks: which tensors between regions stay in blocks of rows (split.hpp), one for each piece that makes them.
//
//     t/1of3  t/2of3  t/3of3     a region makes these, one after another
//     ▁▁▁▁▁▁  ▁▁▁▁▁▁  ▁▁▁▁▁▁     and the next frees them, one after another, as it fills others
//
// Idea: a tensor stays so if whoever reads it takes the rows that its maker made, in another region. A caller, a view
// that comes before its region, and an op that runs whole or needs all before its first row get the whole.
// Complexity: O(inputs of all ops, and visits of the regions).
#pragma once

#include <span>
#include <vector>

#include "split/region_rows.hpp"

namespace memplan {

// Ascending. `region_of`: per op, its region, or kNone.
std::vector<Index> tensors_in_blocks(const Graph& graph, std::span<const RegionRows> regions,
                                     std::span<const Index> region_of);

}  // namespace memplan
