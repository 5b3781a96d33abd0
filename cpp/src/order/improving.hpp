// Improving: an order is made better, peak after peak.
//
//     1. A minimum cut bounds the need of the op at the peak. If the bound is as high as the need, no order is better.
//     2. The ops in the set of the cut run first, then the op.
//     3. Windows of blocks around the peak get their best order.
//
// A change is kept if it lowers the peak, or the number of ops that need as much.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "order/blocks.hpp"
#include "order/contents_model.hpp"
#include "order/cuts.hpp"
#include "order/order_reporter.hpp"

namespace memplan {

// The largest need of an order, and how many ops have it. A better order has less.
struct Height {
  Bytes load = 0;
  std::int64_t peaks = 0;

  bool operator<(const Height& other) const { return load != other.load ? load < other.load : peaks < other.peaks; }
};

Height height_of(std::span<const Bytes> needs);

class Improving {
 public:
  // All outlive it. It ends when no work is left.
  Improving(const ContentsModel& model, const Blocks& blocks, const Deadline& deadline, std::int64_t& work_left,
            OrderReporter& tell);

  // Makes the order better, and tells of it by a name. If the deadline throws, the order keeps the changes made by
  // then.
  void improve(std::string_view name, std::vector<Index>& order);

 private:
  bool take_if_better(std::vector<Index>& order, std::vector<Index> other);
  bool change_by_cut(std::vector<Index>& order, Index op, const Cut& cut);
  bool change_by_window(std::vector<Index>& order, std::span<const Bytes> needs, std::size_t peak, Bytes enough);

  const ContentsModel& model_;
  const Blocks& blocks_;
  const Deadline& deadline_;
  Cuts cuts_;
  std::int64_t& work_left_;
  OrderReporter& tell_;
  std::string_view name_;
  Height height_;  // of the order
};

}  // namespace memplan
