// Ranges: one plan for a network at several sizes, such as batches of 1 to 64.
//
// Graphs of the network at these sizes have the same ops and tensors; the tensors have other bytes. Only what may share
// bytes at all sizes does. So all have the same buffers with the same lifetimes. Offsets have two uses:
//
//     as they are     those of the largest sizes hold wherever no buffer is larger
//     as an order     at one size, the buffers go as low as they can, in the order of their offsets; if that leaves a
//                     gap, a plan of that size gives another order, for there and wherever it is better
//
// Both uses are verified at each size that is looked at, on its own problem and by a replay of its own graph.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "memplan/solve.hpp"
#include "memplan/solve_order.hpp"

namespace memplan {

struct SizedGraph {
  std::string sizes;  // how messages call them, such as "batch=4"
  std::shared_ptr<const Graph> graph;
};

// Throws UnsupportedError, naming both sizes and what differs, unless both graphs have the same ops and tensors, and
// the same views. O(n log n).
void require_alike(const SizedGraph& one, const SizedGraph& other);

struct RangePlan {
  SizedGraph largest;  // in the order of the plan
  StorageOptions storage;
  GraphPlan found;        // of the largest sizes, with offsets that hold for all that were given
  Bytes order_bound = 0;  // as in OrderedPlan
  // Offsets that are good orders at some sizes, with the position of these among those that were given.
  std::vector<std::pair<std::size_t, std::vector<Bytes>>> orders;
};

// One plan of graphs that are alike, the largest sizes last. The layout and the branches of that graph hold for all; it
// is planned as solve_in_order() does, again with less sharing, if what shares bytes is not the same at all sizes.
//
// A time limit is shared out: half is for that plan, the rest for sizes at which its order leaves a gap. Throws what
// solve_in_order() does, and UnsupportedError if the sizes have other buffers, whatever shares bytes.
RangePlan solve_range(std::span<const SizedGraph> graphs, const ChosenOrder& order, const ChosenPlanner& planner,
                      const StorageOptions& storage = {}, const PlanOptions& options = {},
                      const OnOrder& on_order = {});

RangePlan solve_range(std::span<const SizedGraph> graphs, std::string_view planner = "auto",
                      const StorageOptions& storage = {}, const PlanOptions& options = {});

// The plan at one size.
struct SizePlan {
  std::shared_ptr<const Graph> graph;  // in the order of the plan
  GraphPlan found;                     // verified
  Bytes fixed = 0;                     // bytes used with the offsets of the whole range
  std::size_t like = 0;                // the position of the sizes whose order of buffers it has
};

// The plan at one size, in the best of the orders: no search. Throws UnsupportedError if the graph is not alike, or its
// buffers are others, or larger than the offsets have room for. O(n r log n) per order for r byte ranges in use at a
// time.
SizePlan at_size(const RangePlan& range, const SizedGraph& graph);

}  // namespace memplan
