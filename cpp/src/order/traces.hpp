// Traces: bytes that every order needs, by the sequence in which some of its ops run.
//
//     order      a p b q c          named ops: p, q         the state before q is {a, p, b}; its trace is {p}
//     traces     {} ─p─▶ {p} ─q─▶ {p, q}                    or {} ─q─▶ {q} ─p─▶ {p, q}
//
// The price of a step "q runs next, with trace X" is the least need of q after any set of ops with this trace: a
// minimum cut. The price of a way is that of its dearest step. In any order, the traces go a way from no named op to
// all. So the cheapest way bounds every order. The cheapest sets of its steps lie in one another, so they make an
// order. If this order needs no more than the price of the way, no order is better. Otherwise some op needs more,
// wherever it runs in its part of the order. This op is named too, and the search begins again.
//
// Guarantee: without limits, the bound rises to the lowest load of any order, if all that ops may write over counts as
// written over. Complexity: a cut for each trace and op looked at, and at worst a trace for each subset of named ops.
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
