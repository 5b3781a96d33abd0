// Ranges: one plan for a network at several sizes, such as batches of 1 to 64.
//
// The graphs of the network at these sizes have the same ops and tensors. Only the bytes of tensors differ. Tensors
// share bytes only if this is allowed at all sizes. So all graphs have the same buffers with the same lifetimes.
// Offsets have two uses:
//
//     as they are     offsets of the largest sizes hold at all sizes at which no buffer is larger
//     as an order     at one size, buffers are placed as low as possible, in the order of these offsets; if that leaves
//                     a gap, a plan of this size gives another order, for all sizes at which it is better
//
// Both uses are verified at each size, on the problem and by a replay of the graph of this size.
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
  std::string sizes;  // their name in messages, such as "batch=4"
  std::shared_ptr<const Graph> graph;
};

// Throws UnsupportedError, naming both sizes and what differs, unless both graphs have the same ops and tensors, and
// the same views. O(n log n).
void require_alike(const SizedGraph& one, const SizedGraph& other);

struct RangePlan {
  SizedGraph largest;  // in the order of the plan
  StorageOptions storage;
  GraphPlan found;        // of the largest sizes; its offsets hold for all given sizes
  Bytes order_bound = 0;  // as in OrderedPlan
  // Offsets that are good orders at some sizes. The number is the position of such a size among the given sizes.
  std::vector<std::pair<std::size_t, std::vector<Bytes>>> orders;
};

// Makes one plan of graphs that are alike. The graph with the largest sizes is last: its layout and branches hold for
// all graphs, and it is planned as in solve_in_order(). If its sharing is not allowed at all sizes, it is planned again
// with less sharing.
//
// Half of a time limit is for this plan, the rest for sizes at which its order leaves a gap. Throws the errors of
// solve_in_order(). Throws UnsupportedError if the sizes have different buffers even without sharing by choice.
RangePlan solve_range(std::span<const SizedGraph> graphs, const ChosenOrder& order, const ChosenPlanner& planner,
                      const StorageOptions& storage = {}, const PlanOptions& options = {},
                      const OnOrder& on_order = {});

RangePlan solve_range(std::span<const SizedGraph> graphs, std::string_view planner = "auto",
                      const StorageOptions& storage = {}, const PlanOptions& options = {});

// The plan at one size.
struct SizePlan {
  std::shared_ptr<const Graph> graph;  // in the order of the plan
  GraphPlan found;                     // verified
  Bytes fixed = 0;                     // bytes used at this size with the offsets of `range`
  std::size_t like = 0;                // the position of the sizes whose order of buffers was taken
};

// Makes the plan at one size, without a search: it takes the best of the orders. Throws UnsupportedError if the graph
// is not alike, or if its buffers are different or too large for the offsets. O(n r log n) per order for r byte ranges
// in use at a time.
SizePlan at_size(const RangePlan& range, const SizedGraph& graph);

}  // namespace memplan
