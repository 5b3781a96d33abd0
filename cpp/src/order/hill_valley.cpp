// hill_valley: blocks as the hills and valleys of Liu, merged by his rule. Of the blocks that may run next, those that
// end lower than they begin come first, the lowest hill before the others; then those that end higher, the deepest fall
// from hill to valley first.
//
//     block   a hill of 9, down to 2: ends higher by 2, falls by 7        before one that falls by less
//
// Optimal for chains that share nothing but what they begin and end with (Liu 1987, "An application of generalized tree
// pebbling to sparse matrix factorization"), if each is cut at its hills and valleys, which blocks_of does; so for what
// is made of such chains in series and in parallel. Elsewhere a heuristic.
#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "memplan/errors.hpp"
#include "order/blocks.hpp"
#include "order/rules.hpp"

namespace memplan {

namespace {

class HillValley {
 public:
  HillValley(const ContentsModel& model, const Blocks& blocks)
      : model_(model), blocks_(blocks), state_(model), block_of_(at(model.op_count())), waiting_(blocks.ops.size(), 0) {
    for (std::size_t k = 0; k < blocks.ops.size(); ++k)
      for (const Index op : blocks.ops[k]) block_of_[at(op)] = k;
    for (std::size_t k = 0; k < blocks.ops.size(); ++k)
      for (const Index op : blocks.ops[k])
        for (const Index before : model.waits[at(op)]) waiting_[k] += block_of_[at(before)] != k ? 1 : 0;
  }

  std::vector<Index> run() {
    std::vector<Index> order;
    std::vector<Key> key(waiting_.size());
    const auto put = [&](std::size_t k) { ready_.push(key[k] = key_of(k)); };
    std::vector<bool> ran(waiting_.size(), false);
    for (std::size_t k = 0; k < waiting_.size(); ++k)
      if (waiting_[k] == 0) put(k);
    while (!ready_.empty()) {
      const Key best = ready_.top();
      ready_.pop();
      const std::size_t k = std::get<2>(best);
      if (ran[k] || best != key[k]) continue;
      ran[k] = true;
      for (const Index op : blocks_.ops[k]) {
        state_.run(op);
        order.push_back(op);
      }
      for (const Index op : blocks_.ops[k])
        for (const Index next : model_.followers[at(op)])
          if (const std::size_t b = block_of_[at(next)]; b != k && --waiting_[b] == 0) put(b);
      for (const Index op : blocks_.ops[k])  // the last to use a content frees more now
        for (const Index i : model_.uses[at(op)])
          if (state_.uses_left(i) == 1)
            for (const Index user : model_.items[at(i)].users)
              if (const std::size_t b = block_of_[at(user)]; !ran[b] && waiting_[b] == 0) put(b);
    }
    return order;
  }

 private:
  using Key = std::tuple<bool, Bytes, std::size_t>;  // ends higher; hill, or the fall from it; block

  Key key_of(std::size_t k) {
    const Bytes begin = state_.alive();
    Bytes hill = 0;  // from where it begins
    for (const Index op : blocks_.ops[k]) {
      hill = std::max(hill, state_.need(op) - begin);
      state_.run(op);
    }
    const Bytes height = state_.alive() - begin;
    for (auto op = blocks_.ops[k].rbegin(); op != blocks_.ops[k].rend(); ++op) state_.undo(*op);
    return height <= 0 ? Key{false, hill, k} : Key{true, height - hill, k};
  }

  const ContentsModel& model_;
  const Blocks& blocks_;
  OrderState state_;
  std::vector<std::size_t> block_of_;  // per op
  std::vector<std::size_t> waiting_;   // per block, ops that it waits for
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready_;
};

}  // namespace

FoundOrders hill_valley_order(const OrderTask& task) {
  try {
    return {{{"hill_valley", hill_valley(task.model, blocks_of(task.model, task.deadline))}}};
  } catch (const InterruptedError&) {
    return {{{"hill_valley", as_given(task.model)}}, 0, true};
  } catch (const TimeLimitError&) {
    return {{{"hill_valley", as_given(task.model)}}};
  }
}

std::vector<Index> hill_valley(const ContentsModel& model, const Blocks& blocks) {
  return HillValley(model, blocks).run();
}

}  // namespace memplan
