// OrderBound: what every order of a graph's ops needs at least, with a proof that can be checked.
//
// A few ops are named. Whatever the order, they run in some sequence, one after another. A need says: if this op runs
// after those named ops and before these, at least so many bytes are in use. Every sequence meets one of the needs:
//
//     ops {a, b}      none ─ a next ─▶ {a} ─ b next ─▶ {a, b}       the needs of a after none, and of b before a,
//                       └─── b next ─▶ {b} ─ a next ───┘            leave no way
//
// With one op and one need, that is the fewest bytes that are alive before the op, whatever has run.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// While `op` runs after all of `before` and before all of `after`, at least `bytes` are needed. The reason is a flow:
// after any set S of ops that may have run, what is held is alive.
struct OrderNeed {
  // Bytes that a tensor made, the first of them at `begin`, have a user that is not in S, or the caller keeps them.
  struct Held {
    Index tensor;
    Bytes begin;
    Index user;  // kNone: the caller
    Bytes bytes;
  };
  // Bytes of a tensor that are alive.
  struct Alive {
    Index tensor;
    Bytes bytes;
  };
  // An op gives bytes that are held for it to one that it waits for.
  struct Passed {
    Index op, before;
    Bytes bytes;
  };

  Index op = kNone;  // kNone: the end, after all ops
  std::vector<Index> before = {}, after = {};
  Bytes bytes = 0;
  std::vector<Held> held = {};
  std::vector<Passed> passed = {};
  std::vector<Alive> alive = {};  // where `bytes` are the least: after a set of ops with so much alive
};

struct OrderBound {
  Bytes bytes = 0;
  std::vector<Index> ops = {};
  std::vector<OrderNeed> needs = {};
};

// 0, without needs, where ops are on several streams. `work` is in steps of some nanoseconds. Throws InterruptedError
// where `stop`, asked now and then, says so. What is reserved does not count.
OrderBound order_bound(const Graph& graph, const StorageOptions& storage = {}, std::int64_t work = 100'000'000,
                       const std::function<bool()>& stop = {});

// The lowest address below which so many bytes lie beside what the layout of a graph reserves at all steps: what every
// order needs, as an arena.
Bytes beside_reserved(const Graph& graph, Bytes bytes);

}  // namespace memplan
