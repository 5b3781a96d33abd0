// Liveness: the half-open lifetime [first, last) of every storage, in steps.
//
//     op    0   1   2   3   4          written by op 1, last read by op 3: [1, 4)
//               ├───────────┤          an input lives from 0; a weight and an output live to the end
//
// A storage lives from the first write to the last read of any of its members; one that is written and never
// read lives in its op alone.
#pragma once

#include <vector>

#include "memplan/graph.hpp"
#include "memplan/storage.hpp"

namespace memplan {

struct Lifetime {
  Step first = 0;
  Step last = 0;

  bool operator==(const Lifetime&) const = default;
};

// One lifetime per storage. O(reads + writes). Throws UnsupportedError when ops run on several streams: a
// lifetime in steps says nothing about ops that run side by side.
std::vector<Lifetime> lifetimes_of(const Graph& graph, const Storages& storages);

}  // namespace memplan
