// In place by rows: what a region makes is written over what it reads, row by row.
//
//     x  0 1 2 3 4 5       norm reads rows up to 3 of x, and conv keeps what it needs of them
//        ├─┤               conv writes rows 0 and 1 of y: nothing reads rows 0 and 1 of x any more
//     y  0 1 . . . .       so y may lie where x lies, and the two need the bytes of one
//
// Safe means that no row is lost before its last read:
//
//   - x is an intermediate of the same shape and size as y, and no other tensor lies in its bytes. Neither is permuted.
//   - Whoever reads x outside of the region ran before the region.
//   - When rows of y are written, no later visit reads the same rows of x. The visit that writes them may read exactly
//     these if the op may write in place.
//
// Complexity: O(ops + inputs + visits of the region).
#pragma once

#include <unordered_map>
#include <vector>

#include "memplan/storage.hpp"
#include "split/region_rows.hpp"

namespace memplan {

// By tensor that leaves the region, and is made by rows: the tensor over which it is written. No tensor is written over
// twice. `ran`: per op of the graph, whether it runs before the region.
std::unordered_map<Index, Index> rows_in_place(const RegionRows& rows, const StorageOptions& options,
                                               const std::vector<bool>& ran);

// Whether rows of one tensor could lie where the same rows of the other lie.
bool have_same_rows(const Tensor& a, const Tensor& b);

}  // namespace memplan
