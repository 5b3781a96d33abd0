// OrderBound: a lower bound of the bytes that any order of a graph's ops needs, with a proof that can be checked.
//
// The proof names a few ops. Each order of the graph's ops runs the named ops in some sequence. A *need* is a
// statement: "if op v runs after the named ops X and before the other named ops Y, at least so many bytes are in use".
// The needs of a bound are chosen so that every sequence of the named ops fulfils the condition of one of them:
//
//     ops {a, b}      none ─ a next ─▶ {a} ─ b next ─▶ {a, b}       one need: a runs before b; another: b runs before
//                       └─── b next ─▶ {b} ─ a next ───┘            a. Every way from none to {a, b} has one of them
//
// The simplest proof has one op and one need: the bytes that are in use when the op runs, whatever has run before.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "memplan/graph.hpp"
#include "memplan/storage.hpp"

namespace memplan {

// If `op` runs after all of `before` and before all of `after`, at least `bytes` are needed. The proof is a maximum
// flow in a graph of tensors and ops (max-flow/min-cut, see docs/order.md). A cut is a set S of ops that have run. Its
// capacity is the number of bytes alive after S. The flow proves that no cut is smaller.
struct OrderNeed {
  // Flow from bytes of a tensor, the first of them at `begin`, to an op that uses them.
  struct Held {
    Index tensor;
    Bytes begin;
    Index user;  // kNone: the caller keeps the tensor
    Bytes bytes;
  };
  // A tensor that is alive after S, and the number of its bytes that are alive. `always` is true if this holds after
  // every set S to which the need applies.
  struct Alive {
    Index tensor;
    Bytes bytes;
    bool always;
  };
  // Flow from `op` to `before`, an op for which it waits.
  struct Passed {
    Index op, before;
    Bytes bytes;
  };

  Index op = kNone;  // kNone: the end, after all ops
  std::vector<Index> before = {}, after = {};
  Bytes bytes = 0;
  std::vector<Held> held = {};
  std::vector<Passed> passed = {};
  std::vector<Alive> alive = {};  // after the minimum cut: a set S of ops that leaves the fewest bytes alive
};

struct OrderBound {
  Bytes bytes = 0;
  std::vector<Index> ops = {};
  std::vector<OrderNeed> needs = {};
};

// The bound is 0, without needs, if ops are on several streams. `work` limits the search, in steps of some nanoseconds.
// If `stop` returns true, InterruptedError is thrown. Reserved bytes do not count.
OrderBound order_bound(const Graph& graph, const StorageOptions& storage = {}, std::int64_t work = 100'000'000,
                       const std::function<bool()>& stop = {});

// The least size of an arena that has so many `bytes` free beside the ranges that the graph's layout reserves at all
// steps. It turns the bytes of a bound into the size of an arena.
Bytes beside_reserved(const Graph& graph, Bytes bytes);

}  // namespace memplan
