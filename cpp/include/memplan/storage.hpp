// Storage: the bytes that tensors share because one is a view of another.
//
// A root tensor owns the storage; its members are the root and everything that an alias or an overwrite
// puts inside it, directly or through other members:
//
//     0                                  root.bytes
//     ├───────────── root ──────────────┤
//          ├── view ──┤                          offset_of[view] = 6
//              ├─ view of the view ┤             offsets add up along the chain
//
// In-place reuse will join storages here too; whatever joins them, later stages see storages only.
#pragma once

#include <vector>

#include "memplan/graph.hpp"

namespace memplan {

struct Storage {
  Index root = kNone;                          // the tensor that owns the bytes
  Bytes bytes = 0;                             // the root's size
  TensorKind kind = TensorKind::intermediate;  // the root's kind; output if any member is a graph output
};

struct Storages {
  std::vector<Storage> storages;  // in the order of their roots in the graph
  std::vector<Index> storage_of;  // per tensor
  std::vector<Bytes> offset_of;   // per tensor: bytes from the beginning of its storage

  const Storage& of(Index tensor) const {
    return storages[static_cast<std::size_t>(storage_of[static_cast<std::size_t>(tensor)])];
  }
};

// Groups the tensors of a graph into storages. O(tensors + views).
Storages storages_of(const Graph& graph);

}  // namespace memplan
