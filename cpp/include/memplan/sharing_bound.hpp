// Sharing bound: bytes that a graph needs in its order, whatever its tensors share by choice.
//
// The load of one choice of sharing bounds the plans of that choice alone: another may keep a buffer alive for less
// long. This bound counts what every choice has to hold. At step k these are the bytes of all tensors in use, where
//
//   - bytes that show the same content count once: a slice and what it is cut from, a part and the whole that shows it;
//   - outputs that may be written over inputs of op k count only as far as they exceed those inputs;
//   - what may lie outside of the arena does not count: slices of inputs that are not placed, and as many bytes as
//     donated inputs have, of what may take them.
//
//     a ──▶ op ──▶ y (in place over a, or apart)        at op: max(a, y);  with another choice a + y
//
// Where no tensors may share bytes by choice, a graph has one problem, whose load is the bound.
#pragma once

#include <span>

#include "memplan/graph.hpp"
#include "memplan/happens_before.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// The bytes that every plan of the graph needs at the step that needs most, whichever of `possible` tensors share
// bytes: what possible_sharing() says. Alignment is not looked at. 0 where the sum of all bytes exceeds int64, which no
// Problem may hold. O(tensors x log tensors), and for each concatenation, the pieces of content that it shows; those
// beyond the first million do not count.
Bytes sharing_bound(const Graph& graph, const HappensBefore& order, const StorageOptions& options,
                    std::span<const Shared> possible);

}  // namespace memplan
