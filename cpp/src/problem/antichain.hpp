// Antichain: the heaviest set of which no two may follow one another, if "may follow" is a partial order.
//
//     before    after          Every chain of buffers that follow one another can share the bytes of its largest one.
//       0 ──────▶ 0'           Weighted, Dilworth's theorem says that the least weight of chains that cover all is that
//       1 ──┐ ┌─▶ 1'           of the heaviest antichain. The least cover is all weights less a largest flow: as
//       2 ──┴─┘   2'           much of a buffer as goes on in a later one. The antichain is where the flow is cut.
//
// Lifetimes are such an order, and so are lifetimes on several streams: a clique of what conflicts is an antichain. If
// the relation is no order, the result may be no antichain, so the caller checks it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "problem/clique_search.hpp"

namespace memplan {

// `may_follow(a, b)` for two vertices that are not joined: whether b comes after a. No value once so much work is done.
// O(phases x count^2 / 64 + paths), by the flows of Dinic (1970); `tick` is told of work.
std::optional<std::vector<Index>> heaviest_antichain(const WeightedGraph& graph,
                                                     const std::function<bool(Index, Index)>& may_follow,
                                                     std::int64_t work, const std::function<void(std::size_t)>& tick);

}  // namespace memplan
