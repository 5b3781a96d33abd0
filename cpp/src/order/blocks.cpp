#include "order/blocks.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "memplan/happens_before.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kWorkOfGluing = 1'500'000'000;  // in ops and edges looked at
constexpr double kPartOfGluing = 0.5;                  // of the time that is left

// What a block needs at most while it runs, and the growth of what is alive, from where it begins.
struct Profile {
  Bytes peak = 0;
  Bytes growth = 0;
};

class Gluing {
 public:
  Gluing(const ContentsModel& model, const Deadline& deadline)
      : model_(model),
        deadline_(deadline),
        seconds_kept_((1 - kPartOfGluing) * deadline.left().value_or(0)),
        ancestors_(model.op_count()),
        block_of_(at(model.op_count())) {
    std::iota(block_of_.begin(), block_of_.end(), Index{0});
    blocks_.anchor = block_of_;
    for (const Index op : topological()) {
      for (const Index before : model.waits[at(op)]) ancestors_.add_with_row(op, before);
      deadline.tick(model.waits[at(op)].size() * (at(model.op_count()) / 64 + 1));
    }
    for (Index op = 0; op < model.op_count(); ++op) blocks_.ops.push_back({op});
    left_.assign(model.items.size(), 0);
  }

  Blocks run() {
    for (bool more = true; more && goes_on();) {
      more = false;
      for (Index a = 0; a < model_.op_count(); ++a)
        while (goes_on() && !blocks_.ops[at(a)].empty() && glue_next(a)) more = true;
    }
    Blocks result;
    for (std::size_t k = 0; k < blocks_.ops.size(); ++k) {
      if (blocks_.ops[k].empty()) continue;
      result.ops.push_back(std::move(blocks_.ops[k]));
      result.anchor.push_back(blocks_.anchor[k]);
    }
    return result;
  }

 private:
  enum class After { least, most };  // of the ops that may have run before a block

  const std::vector<Index>& ops(Index block) const { return blocks_.ops[at(block)]; }

  bool goes_on() const { return work_left_ > 0 && deadline_.left().value_or(seconds_kept_) >= seconds_kept_; }

  void count(std::size_t work) {
    deadline_.tick(work);
    work_left_ -= static_cast<std::int64_t>(work);
  }

  // Whether a block after `a` could be glued to it.
  bool glue_next(Index a) {
    for (const Index op : ops(a)) {
      count(model_.followers[at(op)].size() + 1);
      for (const Index next : model_.followers[at(op)]) {
        const Index b = block_of_[at(next)];
        if (b == a) continue;
        if (runs_right_after(b, a)) return glue(a, b, blocks_.anchor[at(a)]), true;
        if (runs_right_before(a, b)) return glue(a, b, blocks_.anchor[at(b)]), true;
      }
    }
    return false;
  }

  void glue(Index a, Index b, Index anchor) {
    for (const Index op : ops(b)) block_of_[at(op)] = a;
    auto& joined = blocks_.ops[at(a)];
    joined.insert(joined.end(), ops(b).begin(), ops(b).end());
    blocks_.ops[at(b)].clear();
    blocks_.anchor[at(a)] = anchor;
  }

  // b frees at least what it makes, needs no more than a, and waits for nothing else.
  bool runs_right_after(Index b, Index a) {
    for (const Index op : ops(b)) count(model_.waits[at(op)].size() + 1);
    for (const Index op : ops(b))
      for (const Index before : model_.waits[at(op)])
        if (block_of_[at(before)] != a && block_of_[at(before)] != b && !is_before(before, a)) return false;
    if (profile(b, After::least).growth > 0) return false;
    const Bytes most = profile(a, b, After::least).peak;
    return most <= profile(a, After::most).peak;
  }

  // a makes at least what it frees, needs no more than b, and nothing else waits for it.
  bool runs_right_before(Index a, Index b) {
    for (const Index op : ops(a)) count(model_.followers[at(op)].size() + 1);
    for (const Index op : ops(a))
      for (const Index next : model_.followers[at(op)])
        if (block_of_[at(next)] != a && block_of_[at(next)] != b && !is_behind(next, b)) return false;
    if (profile(a, After::most).growth < 0) return false;
    return profile(a, After::least).peak <= profile(a, b, After::most).peak;
  }

  bool is_before(Index op, Index block) const {
    return ancestors_.contains(ops(block).front(), op) || ancestors_.contains(ops(block).back(), op);
  }
  bool is_behind(Index op, Index block) {
    if (ancestors_.contains(op, ops(block).front()) || ancestors_.contains(op, ops(block).back())) return true;
    const auto& waits = model_.waits[at(op)];
    count(waits.size());
    return std::any_of(waits.begin(), waits.end(), [&](Index before) { return block_of_[at(before)] == block; });
  }

  Profile profile(Index block, After after) {
    joined_.assign(ops(block).begin(), ops(block).end());
    return profile_of_joined(after);
  }
  Profile profile(Index a, Index b, After after) {  // one after the other
    joined_.assign(ops(a).begin(), ops(a).end());
    joined_.insert(joined_.end(), ops(b).begin(), ops(b).end());
    return profile_of_joined(after, joined_.size() - ops(b).size());
  }

  // The peak is that of the ops from `from` on.
  Profile profile_of_joined(After after, std::size_t from = 0) {
    std::size_t uses = 0;
    for (const Index op : joined_) {
      inside_mark_[at(op)] = true;
      for (const Index i : model_.uses[at(op)]) ++left_[at(i)], ++uses;
    }
    count(joined_.size() + uses);
    Profile found{-kMaxBytes, 0};
    for (std::size_t k = 0; k < joined_.size(); ++k) {
      const Index op = joined_[k];
      const auto dies = [&](Index i) { return left_[at(i)] == 1 && dies_outside(i, op, after); };
      const Bytes need = found.growth + model_.making[at(op)] - model_.written_over(op, dies);
      if (k >= from) found.peak = std::max(found.peak, need);
      for (const Index i : model_.makes[at(op)])
        if (const Content& item = model_.items[at(i)]; item.kept || !item.users.empty()) found.growth += item.bytes;
      for (const Index i : model_.uses[at(op)])
        if (dies(i)) found.growth -= model_.items[at(i)].bytes;
      for (const Index i : model_.uses[at(op)]) --left_[at(i)];
    }
    for (const Index op : joined_) inside_mark_[at(op)] = false;
    count(std::exchange(users_looked_at_, 0));
    return found;
  }

  // Whether all ops outside of the block that use a content have run: surely, or perhaps.
  bool dies_outside(Index i, Index op, After after) {
    const Content& item = model_.items[at(i)];
    if (item.kept) return false;
    return std::all_of(item.users.begin(), item.users.end(), [&](Index user) {
      ++users_looked_at_;
      if (inside_mark_[at(user)]) return true;
      if (after == After::least) return ancestors_.contains(op, user) || ancestors_.contains(joined_.back(), user);
      return !ancestors_.contains(user, op) && !ancestors_.contains(user, joined_.front()) &&
             !ancestors_.contains(user, joined_.back());
    });
  }

  std::vector<Index> topological() const {
    std::vector<Index> order;
    std::vector<std::size_t> waiting;
    for (Index op = 0; op < model_.op_count(); ++op) {
      waiting.push_back(model_.waits[at(op)].size());
      if (waiting.back() == 0) order.push_back(op);
    }
    for (std::size_t k = 0; k < order.size(); ++k)
      for (const Index next : model_.followers[at(order[k])])
        if (--waiting[at(next)] == 0) order.push_back(next);
    return order;
  }

  const ContentsModel& model_;
  const Deadline& deadline_;
  double seconds_kept_;  // for what comes after it
  std::int64_t work_left_ = kWorkOfGluing;
  std::size_t users_looked_at_ = 0;  // by a profile
  OpSets ancestors_;
  std::vector<Index> block_of_;  // per op
  Blocks blocks_;
  std::vector<Index> joined_;                                            // ops looked at
  std::vector<bool> inside_mark_ = std::vector<bool>(block_of_.size());  // per op, whether it is among them
  std::vector<Index> left_;                                              // per item, uses by them that are to come
};

}  // namespace

Blocks blocks_of(const ContentsModel& model, const Deadline& deadline) {
  if (model.op_count() <= kMostOpsInBlocks) return Gluing(model, deadline).run();
  Blocks blocks;
  for (Index op = 0; op < model.op_count(); ++op) blocks.ops.push_back({op}), blocks.anchor.push_back(op);
  return blocks;
}

std::vector<std::vector<Index>> in_blocks(const Blocks& blocks, std::span<const Index> order) {
  std::vector<Index> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[at(order[k])] = static_cast<Index>(k);
  std::vector<std::size_t> sorted(blocks.ops.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::sort(sorted.begin(), sorted.end(),
            [&](std::size_t a, std::size_t b) { return place[at(blocks.anchor[a])] < place[at(blocks.anchor[b])]; });
  std::vector<std::vector<Index>> result;
  for (const std::size_t k : sorted) result.push_back(blocks.ops[k]);
  return result;
}

std::vector<Index> joined(std::span<const std::vector<Index>> blocks) {
  std::vector<Index> ops;
  for (const auto& block : blocks) ops.insert(ops.end(), block.begin(), block.end());
  return ops;
}

}  // namespace memplan
