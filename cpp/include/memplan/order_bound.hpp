// OrderBound: what every order of a graph's ops needs at least, with a witness.
#pragma once

#include <cstdint>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// What bounds the load of every order, with its witness: while op `op` runs, `bytes` are needed whatever has run
// before; some set of ops that holds `before` and no others has the fewest bytes alive.
struct OrderBound {
  Bytes bytes = 0;
  Index op = kNone;                // kNone: after the last op, what the caller keeps
  std::vector<Index> before = {};  // a set of ops after which least is alive for `op`, which follows; ascending
};

// 0 where ops are on several streams. `work` is in steps of some nanoseconds.
OrderBound order_bound(const Graph& graph, const StorageOptions& storage = {}, std::int64_t work = 100'000'000);

}  // namespace memplan
