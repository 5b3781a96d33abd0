// Traces: what every order needs at least, by the sequence in which some of its ops run.
//
//     order      a p b q c          named ops: p, q         the state before q is {a, p, b}; its trace is {p}
//     traces     {} ─p─▶ {p} ─q─▶ {p, q}                    or {} ─q─▶ {q} ─p─▶ {p, q}
//
// A step "q runs next, with trace X" costs the least that q needs after any set of ops with this trace: a minimum cut.
// Whatever the order, its trace takes a way from none of the named ops to all. So the way whose dearest step is
// cheapest bounds every order. Each of its steps has a set of ops that is as cheap; these sets lie in one another, so
// they make an order. Where this order needs no more than the way costs, nothing is better. Otherwise, some op needs
// more, wherever it runs in that part of the order: it is named too, and the search begins again.
//
// Guarantee: without limits, the bound rises to the least that any order needs, where what ops may write over is taken
// for written over. Complexity: a cut for each trace and op looked at, and as many traces as there are subsets at
// worst.
#pragma once

#include <span>
#include <vector>

#include "order/contents_model.hpp"
#include "order/cuts.hpp"

namespace memplan {

// While `op` runs after all of `before`, and before all of `after`, at least `bytes` are needed.
struct TraceRule {
  Index op;
  std::vector<Index> before, after;
  Bytes bytes;
};

struct TraceBound {
  Bytes bytes = 0;
  std::vector<Index> ops;        // that are named
  std::vector<TraceRule> rules;  // no way avoids them all
};

// Bytes that every order needs, at most `enough`; and rules that prove it. `order` is a good one; `first` is named
// first. Ends when the work is done, in steps of some nanoseconds, or the ops or traces are too many.
TraceBound trace_bound(const ContentsModel& model, Cuts& cuts, std::span<const Index> order, Index first, Bytes enough,
                       std::int64_t& work_left);

}  // namespace memplan
