#include "order/ideals.hpp"

#include <algorithm>
#include <bit>
#include <queue>
#include <tuple>
#include <unordered_map>

namespace memplan {

namespace {

constexpr std::size_t kBits = 64;
constexpr std::size_t kMostWordsOfIdeals = 1 << 24;  // of all states: 128 MiB

// A set of blocks, as words of bits.
using Words = std::uint64_t*;
bool has(const std::uint64_t* set, std::size_t block) { return (set[block / kBits] >> (block % kBits)) & 1; }
void insert(Words set, std::size_t block) { set[block / kBits] |= std::uint64_t{1} << (block % kBits); }
void erase(Words set, std::size_t block) { set[block / kBits] &= ~(std::uint64_t{1} << (block % kBits)); }

// A content that an op of a block may be the last to use: when the other blocks that use it have run.
struct MayDie {
  Bytes bytes;
  const std::vector<std::size_t>* blocks;  // that use it, this one among them
};

struct LocalOver {
  Bytes bytes;
  std::vector<std::size_t> items;  // positions in may_die
};

// An op of a block.
struct BlockStep {
  Bytes making;   // with its workspace
  Bytes leaving;  // of what it makes, bytes that are alive behind it
  std::vector<MayDie> may_die;
  std::vector<LocalOver> overs;
  std::vector<std::size_t> over_items;  // positions in may_die
};

// What a block needs at most, and the growth of what is alive.
struct BlockRun {
  Bytes need;
  Bytes growth;
};

struct IdealState {
  Bytes alive;
  Bytes needed;  // at most, on the way; at least what is enough
  std::size_t count;
  std::size_t block;  // that ran last
  Index before;
};

// The table of states: by set, the number of the best one.
class IdealTable {
 public:
  explicit IdealTable(std::size_t words) : words_(words), slots_(1 << 12, kNone) {}

  const std::uint64_t* set(Index state) const { return sets_.data() + at(state) * words_; }

  // The place of a set: that of the state that has it, or a free one.
  Index& at_set(const std::uint64_t* set) {
    for (std::size_t slot = hash(set) & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1)) {
      const Index state = slots_[slot];
      if (state == kNone || std::equal(set, set + words_, this->set(state))) return slots_[slot];
    }
  }
  void push_set(const std::uint64_t* set) {
    sets_.insert(sets_.end(), set, set + words_);
    if (2 * ++count_ > slots_.size()) grow();
  }

 private:
  std::size_t hash(const std::uint64_t* set) const {
    std::uint64_t hash = 0;
    for (std::size_t w = 0; w < words_; ++w) hash = (hash ^ set[w]) * 0x9E3779B97F4A7C15ull, hash ^= hash >> 29;
    return static_cast<std::size_t>(hash ^ (hash >> 32));
  }
  void grow() {
    std::vector<Index> old(2 * slots_.size(), kNone);
    old.swap(slots_);
    for (const Index state : old)
      if (state != kNone) at_set(set(state)) = state;
  }

  std::size_t words_;
  std::vector<std::uint64_t> sets_;  // per state
  std::vector<Index> slots_;
  std::size_t count_ = 0;
};

class Ideals {
 public:
  Ideals(const ContentsModel& model, const OrderState& state, std::span<const std::vector<Index>> blocks,
         const IdealSearch& search, const Deadline& deadline, std::int64_t& work_left)
      : model_(model),
        blocks_(blocks),
        search_(search),
        deadline_(deadline),
        work_left_(work_left),
        words_((blocks.size() + kBits - 1) / kBits),
        waits_(blocks.size()),
        followers_(blocks.size()),
        steps_(blocks.size()),
        alive_before_(state.alive()),
        table_(words_) {
    for (std::size_t k = 0; k < blocks.size(); ++k)
      for (const Index op : blocks[k]) block_of_[op] = k;
    for (std::size_t k = 0; k < blocks.size(); ++k) add_waits(k);
    for (std::size_t k = 0; k < blocks.size(); ++k) add_steps(k, state);
  }

  BestWay run() {
    const BestWay found = search();
    work_left_ -= work_;
    return found;
  }

 private:
  BestWay search() {
    add_first();
    Bytes bound = search_.enough;
    while (!queue_.empty()) {
      const Index current = std::get<3>(queue_.top());
      queue_.pop();
      if (table_.at_set(table_.set(current)) != current) continue;  // a better way is known
      bound = std::max(bound, states_[at(current)].needed);
      if (states_[at(current)].count == blocks_.size()) return {path(current), bound};
      if (work_ >= search_.work || ready_.size() >= kMostWordsOfIdeals) return {std::nullopt, bound};
      expand(current);
    }
    return {std::nullopt, search_.limit};
  }

  void add_first() {
    std::vector<std::uint64_t> set(words_), ready(words_);
    Bytes alive = alive_before_;
    for (std::size_t k = 0; k < blocks_.size(); ++k) {
      if (awaited(k).empty()) insert(ready.data(), k);
      if (!search_.backwards) continue;
      alive += run_of(k, set.data()).growth;  // in the order that is given
      insert(set.data(), k);
    }
    add({alive, search_.enough, 0, 0, kNone}, set, ready);
  }

  // The blocks that have to be looked at before a block: those that it waits for, or from the end, that wait for it.
  const std::vector<std::size_t>& awaited(std::size_t k) const { return search_.backwards ? followers_[k] : waits_[k]; }
  const std::vector<std::size_t>& freed(std::size_t k) const { return search_.backwards ? waits_[k] : followers_[k]; }

  void add_waits(std::size_t k) {
    for (const Index op : blocks_[k]) {
      for (const Index before : model_.waits[at(op)]) {
        const auto found = block_of_.find(before);
        if (found == block_of_.end() || found->second == k) continue;
        if (std::find(waits_[k].begin(), waits_[k].end(), found->second) != waits_[k].end()) continue;
        waits_[k].push_back(found->second);
        followers_[found->second].push_back(k);
      }
    }
  }

  void add_steps(std::size_t k, const OrderState& state) {
    std::unordered_map<Index, std::size_t> last;  // item -> the last op of the block that uses it
    for (std::size_t s = 0; s < blocks_[k].size(); ++s)
      for (const Index i : model_.uses[at(blocks_[k][s])]) last[i] = s;
    for (std::size_t s = 0; s < blocks_[k].size(); ++s) {
      const Index op = blocks_[k][s];
      BlockStep step{model_.making[at(op)], 0, {}, {}, {}};
      for (const Index i : model_.makes[at(op)])
        if (const Content& item = model_.items[at(i)]; item.kept || !item.users.empty()) step.leaving += item.bytes;
      std::unordered_map<Index, std::size_t> place;  // item -> position in may_die
      for (const Index i : model_.uses[at(op)]) {
        if (last[i] != s) continue;
        auto may_die = dies_after(i, state);
        if (!may_die) continue;
        place[i] = step.may_die.size();
        step.may_die.push_back(std::move(*may_die));
      }
      for (const Over& over : model_.overs[at(op)]) step.overs.push_back({over.bytes, places(place, over.items)});
      step.over_items = places(place, model_.over_items[at(op)]);
      steps_[k].push_back(std::move(step));
    }
  }

  static std::vector<std::size_t> places(const std::unordered_map<Index, std::size_t>& place,
                                         const std::vector<Index>& items) {
    std::vector<std::size_t> found;
    for (const Index i : items)
      if (const auto it = place.find(i); it != place.end()) found.push_back(it->second);
    return found;
  }

  // Nothing where a content outlives the blocks.
  std::optional<MayDie> dies_after(Index i, const OrderState& state) {
    const Content& item = model_.items[at(i)];
    if (item.kept) return std::nullopt;
    const auto [known, is_new] = users_.try_emplace(i);
    Users& users = known->second;
    for (const Index user : item.users) {
      if (!is_new) break;
      const auto at_user = block_of_.find(user);
      if (at_user == block_of_.end()) continue;
      ++users.inside;
      if (users.blocks.empty() || users.blocks.back() != at_user->second) users.blocks.push_back(at_user->second);
    }
    if (users.inside < state.uses_left(i)) return std::nullopt;
    return MayDie{item.bytes, &users.blocks};
  }

  BlockRun run_of(std::size_t block, const std::uint64_t* set) {
    BlockRun run{0, 0};
    for (const BlockStep& step : steps_[block]) {
      Bytes frees = 0;
      dies_.assign(step.may_die.size(), 0);
      for (std::size_t i = 0; i < step.may_die.size(); ++i) {
        const auto& [bytes, users] = step.may_die[i];
        const auto to_come =
            std::find_if(users->begin(), users->end(), [&](std::size_t k) { return k != block && !has(set, k); });
        if (to_come == users->end()) frees += dies_[i] = bytes;
        work_ += (to_come - users->begin()) / 8;
      }
      Bytes outputs = 0, inputs = 0;
      for (const LocalOver& over : step.overs) {
        Bytes dying = 0;
        for (const std::size_t i : over.items) dying += dies_[i];
        outputs += std::min(over.bytes, dying);
      }
      for (const std::size_t i : step.over_items) inputs += dies_[i];
      run.need = std::max(run.need, run.growth + step.making - std::min({outputs, inputs, step.making}));
      run.growth += step.leaving - frees;
      work_ += static_cast<std::int64_t>(1 + step.may_die.size());
    }
    return run;
  }

  void expand(Index current) {
    const IdealState state = states_[at(current)];
    const auto from = static_cast<std::ptrdiff_t>(at(current) * words_);
    const std::vector<std::uint64_t> set(table_.set(current), table_.set(current) + words_);
    const std::vector<std::uint64_t> ready(ready_.begin() + from,
                                           ready_.begin() + from + static_cast<std::ptrdiff_t>(words_));
    deadline_.tick(blocks_.size());
    find_next(state, set, ready);
    for (const auto& [k, alive, needed] : next_) {
      std::vector<std::uint64_t> with = set, ready_with = ready;
      search_.backwards ? erase(with.data(), k) : insert(with.data(), k);
      erase(ready_with.data(), k);
      for (const std::size_t next : freed(k))
        if (std::all_of(awaited(next).begin(), awaited(next).end(),
                        [&](std::size_t other) { return has(with.data(), other) != search_.backwards; }))
          insert(ready_with.data(), next);
      add({alive, needed, state.count + 1, k, current}, with, ready_with);
    }
  }

  // The steps to other states: a step that lowers what is alive at no new need is the only one.
  void find_next(const IdealState& state, std::vector<std::uint64_t> set, const std::vector<std::uint64_t>& ready) {
    next_.clear();
    for (std::size_t w = 0; w < words_; ++w) {
      for (std::uint64_t bits = ready[w]; bits != 0; bits &= bits - 1) {
        const std::size_t k = w * kBits + static_cast<std::size_t>(std::countr_zero(bits));
        if (search_.backwards) erase(set.data(), k);
        const BlockRun run = run_of(k, set.data());
        if (search_.backwards) insert(set.data(), k);
        const Bytes growth = search_.backwards ? -run.growth : run.growth;
        const Bytes need = (search_.backwards ? state.alive + growth : state.alive) + run.need;
        if (need >= search_.limit) continue;
        const Next step{k, state.alive + growth, std::max(state.needed, need)};
        if (growth <= 0 && need <= state.needed) {
          next_.assign(1, step);
          return;
        }
        next_.push_back(step);
      }
    }
  }

  void add(const IdealState& state, const std::vector<std::uint64_t>& set, const std::vector<std::uint64_t>& ready) {
    work_ += static_cast<std::int64_t>(4 * words_);
    Index& known = table_.at_set(set.data());
    if (known != kNone && states_[at(known)].needed <= state.needed) return;
    const auto number = static_cast<Index>(states_.size());
    known = number;
    states_.push_back(state);
    ready_.insert(ready_.end(), ready.begin(), ready.end());
    table_.push_set(set.data());
    queue_.emplace(state.needed, -static_cast<std::int64_t>(state.count), state.alive, number);
  }

  std::vector<Index> path(Index end) const {
    std::vector<std::size_t> order;
    for (Index n = end; states_[at(n)].before != kNone; n = states_[at(n)].before)
      order.push_back(states_[at(n)].block);
    if (!search_.backwards) std::reverse(order.begin(), order.end());
    std::vector<Index> ops;
    for (const std::size_t block : order) ops.insert(ops.end(), blocks_[block].begin(), blocks_[block].end());
    return ops;
  }

  struct Users {
    Index inside = 0;                 // ops of the blocks
    std::vector<std::size_t> blocks;  // of these ops
  };
  struct Next {
    std::size_t block;
    Bytes alive, needed;
  };
  using Entry = std::tuple<Bytes, std::int64_t, Bytes, Index>;  // needed, blocks left, alive, state

  const ContentsModel& model_;
  std::span<const std::vector<Index>> blocks_;
  const IdealSearch& search_;
  const Deadline& deadline_;
  std::int64_t& work_left_;
  std::int64_t work_ = 0;
  std::size_t words_;                                // of a set
  std::unordered_map<Index, std::size_t> block_of_;  // op ->
  std::vector<std::vector<std::size_t>> waits_;      // per block
  std::vector<std::vector<std::size_t>> followers_;
  std::unordered_map<Index, Users> users_;     // of items; by nodes, which stay where they are
  std::vector<std::vector<BlockStep>> steps_;  // per block
  Bytes alive_before_;
  std::vector<IdealState> states_;
  std::vector<std::uint64_t> ready_;  // per state, the blocks that may run next
  IdealTable table_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<Bytes> dies_;  // per content of a step, its bytes if it dies
  std::vector<Next> next_;
};

}  // namespace

BestWay best_way(const ContentsModel& model, const OrderState& state, std::span<const std::vector<Index>> blocks,
                 const IdealSearch& search, const Deadline& deadline, std::int64_t& work_left) {
  return Ideals(model, state, blocks, search, deadline, work_left).run();
}

}  // namespace memplan
