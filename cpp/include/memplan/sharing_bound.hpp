// Sharing bound: a number of bytes that a graph needs in its order of ops, whichever tensors share bytes by choice.
//
// Tensors may share bytes in several ways, and memplan chooses one. The load of one choice is a bound for this choice
// alone, because another choice may need fewer bytes. The sharing bound holds for every choice. It counts the bytes of
// all tensors in use at a step. Three rules make sure that no choice needs less:
//
//   - Bytes with the same content count once: a slice and the tensor from which it is cut, or a part and its
//     concatenation.
//   - An output of an op may take bytes of the op's inputs, in place or because the op's loops are ordered. Then only
//     the other bytes of the output count.
//   - Bytes that may lie outside of the arena do not count, such as slices of inputs that are not placed. If outputs
//     may take the bytes of donated inputs, as many bytes of outputs as these inputs have do not count.
//
//     a ──▶ op ──▶ y (in place over a, or apart)        at op: max(a, y);  with another choice a + y
//
// If bytes are reserved at a step, the bound is the size of an arena with enough free bytes beside them. If no tensors
// may share bytes by choice, the bound is the load.
#pragma once

#include <span>

#include "memplan/graph.hpp"
#include "memplan/happens_before.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// The sharing bound, at the step where it is highest. `possible` is the result of possible_sharing(). If a tensor
// begins at an aligned offset in every choice, its size is rounded up to the alignment (problem/granules.hpp). Returns
// 0 if the sum of all bytes exceeds int64: no Problem may hold so many.
//
// O(tensors x log tensors + pieces), where a concatenation has one piece for each tensor whose content it shows. After
// the first million pieces, outputs that may be slices or concatenations count 0 bytes. The bound still holds then, but
// it may be lower.
Bytes sharing_bound(const Graph& graph, const HappensBefore& order, const StorageOptions& options,
                    std::span<const Shared> possible);

// For a graph with branches: the highest sharing bound of any run, a run being one choice of branches.
Bytes sharing_bound(const Graph& graph, const StorageOptions& options);

}  // namespace memplan
