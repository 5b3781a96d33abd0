// Cuts: the least that is alive before an op, in any order, by a minimum cut.
//
//     source ─∞▶ what op waits for      maker ─bytes▶ item ─∞▶ users      op ─∞▶ what it waits for      op ─∞▶ sink
//
// A cut of finite capacity is a set S of ops with all their predecessors, without the op: what it cuts is what is alive
// after S. So the least cut is the least that may be alive when the op runs. Dinic's algorithm.
#pragma once

#include <optional>
#include <vector>

#include "order/contents_model.hpp"
#include "placing/deadline.hpp"

namespace memplan {

struct Cut {
  Bytes alive = 0;           // bytes after S
  std::vector<bool> in_set;  // per op, whether it is in S
};

class Cuts {
 public:
  Cuts(const ContentsModel& model, const Deadline& deadline);  // which outlive it

  // The least that is alive before an op; nothing if it takes more work than is left, in edges looked at. The deadline
  // throws.
  std::optional<Cut> before(Index op, std::int64_t& work_left);

 private:
  struct Edge {
    Index to;
    Bytes capacity;
  };

  void add(Index from, Index to, Bytes capacity);
  bool find_levels();
  Bytes push(Index node, Bytes limit);
  void count(std::size_t edges);

  const ContentsModel& model_;
  const Deadline& deadline_;
  std::int64_t work_ = 0;  // edges looked at
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
