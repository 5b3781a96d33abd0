// hill_valley: blocks as the hills and valleys of Liu, merged by his rule. Of the blocks that may run next, those that
// end lower than they begin come first, the lowest hill before the others; then those that end higher, the deepest fall
// from hill to valley first.
//
//     block   a hill of 9, down to 2: ends higher by 2, falls by 7        before one that falls by less
//
// Where only one block, on its own, keeps others from running, what these free counts as its own: a gradient falls as
// far as the update behind it. With a limit, blocks that need more wait until less is alive.
//
// Blocks that are ready are looked at again when what others have run makes them free more: one of many uses only after
// a part of these, so that all looks cost as much as a few times the edges.
//
// Optimal for chains that share nothing but what they begin and end with (Liu 1987, "An application of generalized tree
// pebbling to sparse matrix factorization"), if each is cut at its hills and valleys, which blocks_of does; so for what
// is made of such chains in series and in parallel. Elsewhere a heuristic.
#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "order/blocks.hpp"
#include "order/rules.hpp"

namespace memplan {

namespace {

constexpr std::size_t kAhead = 8;       // blocks that are looked at behind one
constexpr std::size_t kMostLooks = 64;  // at a block, while others run: one per so many of its uses

class HillValley {
 public:
  HillValley(const ContentsModel& model, const Blocks& blocks, const Deadline& deadline, Bytes limit)
      : model_(model),
        blocks_(blocks),
        deadline_(deadline),
        limit_(limit),
        state_(model),
        hill_(blocks.ops.size()),
        key_(blocks.ops.size()),
        ran_(blocks.ops.size(), false),
        uses_(blocks.ops.size(), 0),
        changes_(blocks.ops.size(), 0),
        waits_(blocks.ops.size()),
        followers_(blocks.ops.size()) {
    std::vector<std::size_t> block_of(at(model.op_count()));
    for (std::size_t k = 0; k < blocks.ops.size(); ++k)
      for (const Index op : blocks.ops[k]) {
        block_of[at(op)] = k;
        uses_[k] += model.uses[at(op)].size();
      }
    block_of_ = std::move(block_of);
    for (std::size_t k = 0; k < blocks.ops.size(); ++k) {
      for (const Index op : blocks.ops[k])
        for (const Index before : model.waits[at(op)])
          if (block_of_[at(before)] != k) waits_[k].push_back(block_of_[at(before)]);
      std::sort(waits_[k].begin(), waits_[k].end());
      waits_[k].erase(std::unique(waits_[k].begin(), waits_[k].end()), waits_[k].end());
      for (const std::size_t before : waits_[k]) followers_[before].push_back(k);
      waiting_.push_back(waits_[k].size());
    }
  }

  std::vector<Index> run() {
    std::vector<Index> order;
    for (std::size_t k = 0; k < waiting_.size(); ++k)
      if (waiting_[k] == 0) put(k);
    for (std::size_t count = 0; count < waiting_.size(); ++count) {
      const std::size_t k = next();
      ran_[k] = true;
      for (const Index op : blocks_.ops[k]) {
        state_.run(op);
        order.push_back(op);
      }
      for (const std::size_t next : followers_[k]) {
        --waiting_[next];
        look_again(next);
      }
      for (const Index op : blocks_.ops[k])  // the last to use a content frees more now
        for (const Index i : model_.uses[at(op)])
          if (state_.uses_left(i) == 1)
            for (const Index user : model_.items[at(i)].users) frees_more(block_of_[at(user)]);
    }
    return order;
  }

 private:
  using Key = std::tuple<bool, Bytes, std::size_t>;  // ends higher; hill, or the fall from it; block

  void put(std::size_t k) { ready_.push(key_[k] = key_of(k)); }

  // The best one whose hill is within the limit; if there is none, the one with the lowest hill, and that is the limit.
  std::size_t next() {
    for (;;) {
      while (!too_high_.empty() && state_.alive() + too_high_.top().first <= limit_) {
        ready_.push(too_high_.top().second);
        too_high_.pop();
      }
      if (ready_.empty()) {
        limit_ = state_.alive() + too_high_.top().first;
        continue;
      }
      const Key best = ready_.top();
      ready_.pop();
      const std::size_t k = std::get<2>(best);
      if (ran_[k] || best != key_[k]) continue;
      if (state_.alive() + hill_[k] <= limit_) return k;
      too_high_.emplace(hill_[k], best);
    }
  }

  void frees_more(std::size_t k) {
    if (ran_[k] || ++changes_[k] * kMostLooks < uses_[k]) return;
    look_again(k);
  }

  // What a block brings has changed: its key, or that of the one block that it still waits for.
  void look_again(std::size_t k) {
    if (ran_[k] || waiting_[k] > 1) return;
    changes_[k] = 0;
    if (waiting_[k] == 0) return put(k);
    const auto last = std::find_if(waits_[k].begin(), waits_[k].end(), [&](std::size_t b) { return !ran_[b]; });
    if (waiting_[*last] == 0) put(*last);
  }

  // Of the block with those behind it that may run then and end no higher than they begin, until it pays.
  Key key_of(std::size_t k) {
    const Bytes begin = state_.alive();
    Bytes hill = 0;  // from where it begins
    std::vector<std::size_t> ahead = {k};
    climb(k, begin, hill);
    for (std::size_t done = 0; done < ahead.size() && ahead.size() <= kAhead && state_.alive() > begin; ++done) {
      for (const std::size_t next : followers_[ahead[done]]) {
        if (waiting_[next] != 1) continue;
        const Bytes before = state_.alive(), lower = hill;
        climb(next, begin, hill);
        if (state_.alive() < before) {
          ahead.push_back(next);
          break;
        }
        undo(next);
        hill = lower;
      }
    }
    const Bytes height = state_.alive() - begin;
    hill_[k] = hill;
    for (auto block = ahead.rbegin(); block != ahead.rend(); ++block) undo(*block);
    return height <= 0 ? Key{false, hill, k} : Key{true, height - hill, k};
  }

  void climb(std::size_t k, Bytes begin, Bytes& hill) {
    deadline_.tick(2 * (blocks_.ops[k].size() + uses_[k]));
    for (const Index op : blocks_.ops[k]) {
      hill = std::max(hill, state_.need(op) - begin);
      state_.run(op);
    }
  }

  void undo(std::size_t k) {
    for (auto op = blocks_.ops[k].rbegin(); op != blocks_.ops[k].rend(); ++op) state_.undo(*op);
  }

  const ContentsModel& model_;
  const Blocks& blocks_;
  const Deadline& deadline_;
  Bytes limit_;  // of what is needed
  OrderState state_;
  std::vector<Bytes> hill_;                                  // per block
  std::vector<Key> key_;                                     // per block
  std::vector<bool> ran_;                                    // per block
  std::vector<std::size_t> uses_;                            // per block, of items by its ops
  std::vector<std::size_t> changes_;                         // per block, since it was looked at
  std::vector<std::size_t> block_of_;                        // per op
  std::vector<std::vector<std::size_t>> waits_, followers_;  // per block, other blocks
  std::vector<std::size_t> waiting_;                         // per block, how many it still waits for
  template <class T>
  using Lowest = std::priority_queue<T, std::vector<T>, std::greater<>>;
  Lowest<Key> ready_;
  Lowest<std::pair<Bytes, Key>> too_high_;  // by hill
};

}  // namespace

FoundOrders hill_valley_order(const OrderTask& task) {
  return {{{"hill_valley", hill_valley(task.model, blocks_of(task.model, task.deadline), task.deadline)}}};
}

std::vector<Index> hill_valley(const ContentsModel& model, const Blocks& blocks, const Deadline& deadline,
                               Bytes limit) {
  return HillValley(model, blocks, deadline, limit).run();
}

}  // namespace memplan
