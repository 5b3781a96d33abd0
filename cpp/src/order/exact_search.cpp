#include "order/exact_search.hpp"

#include <algorithm>

#include "memplan/errors.hpp"
#include "order/ideals.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kFirstWork = 1'000'000;  // of a part, from one end

using BlocksOfParts = std::vector<std::vector<std::vector<Index>>>;  // of blocks

// Per block of an order, whether all blocks behind it wait for it, and it waits for all before it.
std::vector<bool> bottlenecks(const ContentsModel& model, std::span<const std::vector<Index>> blocks) {
  std::vector<std::size_t> block_of(at(model.op_count()));
  for (std::size_t k = 0; k < blocks.size(); ++k)
    for (const Index op : blocks[k]) block_of[at(op)] = k;
  // The first block that waits for a block, and the last that it waits for.
  std::vector<std::size_t> first(blocks.size(), blocks.size()), last(blocks.size(), 0);
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    for (const Index op : blocks[k]) {
      for (const Index before : model.waits[at(op)]) {
        const std::size_t b = block_of[at(before)];
        if (b == k) continue;
        first[b] = std::min(first[b], k);
        last[k] = std::max(last[k], b + 1);
      }
    }
  }
  // All before a block lead to it if each of them has a follower up to it; and so from the other end.
  std::vector<bool> is(blocks.size(), true);
  std::size_t furthest = 0;
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    is[k] = furthest <= k;
    furthest = std::max(furthest, first[k]);
  }
  std::size_t nearest = blocks.size();
  for (std::size_t k = blocks.size(); k-- > 0;) {
    is[k] = is[k] && nearest > k;
    nearest = std::min(nearest, last[k]);
  }
  return is;
}

BlocksOfParts parts_of(const ContentsModel& model, const std::vector<std::vector<Index>>& blocks) {
  const std::vector<bool> is_bottleneck = bottlenecks(model, blocks);
  BlocksOfParts parts;
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    if (k == 0 || is_bottleneck[k]) parts.emplace_back();
    parts.back().push_back(blocks[k]);
  }
  return parts;
}

struct OrderPart {
  std::vector<std::vector<Index>> blocks;
  std::size_t begin;  // ops before it
  Bytes need = 0;     // of its order
  bool done = false;  // no order of the part needs less
};

class ExactSearch {
 public:
  ExactSearch(const ContentsModel& model, const Blocks& blocks, std::span<const Index> order, Bytes bound,
              std::int64_t work, const Deadline& deadline, OrderReporter& tell)
      : model_(model), deadline_(deadline), tell_(tell), work_left_(work), bound_(bound) {
    for (BlocksOfParts found = parts_of(model, in_blocks(blocks, order)); auto& part : found) {
      const std::vector<Index> ops = joined(part);
      parts_.push_back({std::move(part), order_.size()});
      order_.insert(order_.end(), ops.begin(), ops.end());
    }
    const std::vector<Bytes> needs = needs_of(model, order_);
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const std::size_t end = k + 1 < parts_.size() ? parts_[k + 1].begin : order_.size();
      for (std::size_t at_op = parts_[k].begin; at_op < end; ++at_op)
        parts_[k].need = std::max(parts_[k].need, needs[at_op]);
    }
  }

  ExactOrder run() {
    bool interrupted = false;
    try {
      for (OrderPart* part = highest(); part != nullptr && work_left_ > 0; part = highest()) search(*part);
    } catch (const InterruptedError&) {
      interrupted = true;
    } catch (const TimeLimitError&) {
    }
    return {order_, bound_, interrupted};
  }

 private:
  // The part that needs most: none if that is proven. A better order of another would be no better order of all.
  OrderPart* highest() {
    const auto part = std::max_element(parts_.begin(), parts_.end(), lower);
    return part == parts_.end() || part->done || part->need <= bound_ ? nullptr : &*part;
  }

  // From both ends in turn, with more and more work.
  void search(OrderPart& part) {
    OrderState state(model_);
    for (std::size_t k = 0; k < part.begin; ++k) state.run(order_[k]);
    work_left_ -= static_cast<std::int64_t>(part.begin);
    for (std::int64_t work = kFirstWork; work_left_ > 0; work *= 4) {
      for (const bool backwards : {false, true}) {
        if (work_left_ <= 0) return;
        const IdealSearch asked{std::min(work, work_left_), bound_, part.need, backwards};
        const BestWay way = best_way(model_, state, part.blocks, asked, deadline_, work_left_);
        bound_ = std::max(bound_, way.bound);
        tell_.bound(bound_);
        part.done = way.ops || way.bound >= part.need;
        if (way.ops) take(part, state, *way.ops);
        if (part.done) return;
      }
    }
  }

  void take(OrderPart& part, OrderState state, std::span<const Index> ops) {
    std::copy(ops.begin(), ops.end(), order_.begin() + static_cast<std::ptrdiff_t>(part.begin));
    part.need = 0;
    for (const Index op : ops) {
      part.need = std::max(part.need, state.need(op));
      state.run(op);
    }
    tell_.order("exact", std::max_element(parts_.begin(), parts_.end(), lower)->need);
  }

  static bool lower(const OrderPart& a, const OrderPart& b) { return a.need < b.need; }

  const ContentsModel& model_;
  const Deadline& deadline_;
  OrderReporter& tell_;
  std::int64_t work_left_;
  Bytes bound_;
  std::vector<Index> order_;
  std::vector<OrderPart> parts_;
};

}  // namespace

ExactOrder search_exactly(const ContentsModel& model, const Blocks& blocks, std::span<const Index> order, Bytes bound,
                          std::int64_t work, const Deadline& deadline, OrderReporter& tell) {
  return ExactSearch(model, blocks, order, bound, work, deadline, tell).run();
}

}  // namespace memplan
