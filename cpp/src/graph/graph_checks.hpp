// Checks that a resolved graph is legal, one per rule, run once when a Graph is made.
#pragma once

#include "memplan/graph.hpp"

namespace memplan {

// Throws GraphError that names op and tensor. O(reads + writes + views), and on graphs whose bytes are
// overwritten, each read also looks at the overwrites of its root.
void check_graph(const Graph& graph);

}  // namespace memplan
