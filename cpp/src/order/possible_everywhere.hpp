// Which tensors may share bytes by choice in some order of the ops: all choices that ops offer and some order allows.
#pragma once

#include <vector>

#include "memplan/graph.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// By op, as possible_sharing says of the given order.
std::vector<Shared> possible_everywhere(const Graph& graph, const StorageOptions& options);

}  // namespace memplan
