// Cuts: the least that is alive before an op, in any order, by a minimum cut.
//
//     source ─∞▶ what op waits for      maker ─bytes▶ item ─∞▶ users      op ─∞▶ what it waits for      op ─∞▶ sink
//
// A cut of finite capacity is a set S of ops with all their predecessors, without the op: what it cuts is what is alive
// after S. So the least cut is the least that may be alive when the op runs. Dinic's algorithm.
#pragma once

#include <vector>

#include "order/contents_model.hpp"

namespace memplan {

struct Cut {
  Bytes alive = 0;           // bytes after S
  std::vector<bool> in_set;  // per op, whether it is in S
};

class Cuts {
 public:
  explicit Cuts(const ContentsModel& model);  // which outlives it

  // The least that is alive before an op.
  Cut before(Index op);

 private:
  struct Edge {
    Index to;
    Bytes capacity;
  };

  void add(Index from, Index to, Bytes capacity);
  bool find_levels();
  Bytes push(Index node, Bytes limit);

  const ContentsModel& model_;
  Index source_, sink_;
  std::vector<std::vector<Index>> edges_of_;  // per node; an edge's reverse is its number ^ 1
  std::vector<Edge> edges_;
  std::vector<Bytes> fresh_;    // capacities without what depends on the op
  std::vector<Index> to_op_;    // per op, the edge source -> op
  std::vector<Index> from_op_;  // per op, the edge op -> sink
  std::vector<Index> level_;
  std::vector<std::size_t> next_;
};

}  // namespace memplan
