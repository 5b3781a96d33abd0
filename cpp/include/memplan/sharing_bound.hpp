// Sharing bound: bytes that a graph needs in its order, whatever its tensors share by choice.
//
// The load of one choice of sharing bounds the plans of that choice alone. Another choice may keep a buffer alive for a
// shorter time. This bound counts what every choice has to hold: at step k, the bytes of all tensors in use. Three
// rules keep it below every choice:
//
//   - Bytes that show the same content count once: a slice and the tensor that it is cut from, a part and its whole.
//   - Outputs that may be written over inputs of op k, in place or because its loops are ordered, count only by as much
//     as they are larger than what they may take of those inputs.
//   - Bytes that may lie outside of the arena do not count: slices of inputs that are not placed, and, of outputs that
//     may take donated inputs, as many bytes as those inputs have.
//
//     a ──▶ op ──▶ y (in place over a, or apart)        at op: max(a, y);  with another choice a + y
//
// Bytes that are reserved at a step come on top. If no tensors may share bytes by choice, the bound is the load.
#pragma once

#include <span>

#include "memplan/graph.hpp"
#include "memplan/happens_before.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// The bytes that every plan of the graph needs at the step that needs most, whichever of `possible` tensors share
// bytes: what possible_sharing() says. What begins at an aligned offset whatever is shared counts with its tail
// (problem/granules.hpp). 0 if the sum of all bytes exceeds int64, which no
// Problem may hold. O(tensors x log tensors), and for each concatenation, the pieces of content that it shows; pieces
// beyond the first million do not count.
Bytes sharing_bound(const Graph& graph, const HappensBefore& order, const StorageOptions& options,
                    std::span<const Shared> possible);

// The same for a graph with branches: the most that any run needs.
Bytes sharing_bound(const Graph& graph, const StorageOptions& options);

}  // namespace memplan
