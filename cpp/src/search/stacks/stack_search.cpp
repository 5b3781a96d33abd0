#include "search/stacks/stack_search.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace memplan {

namespace {

constexpr std::size_t kMostDivided = 12;  // of those that die, and of those that are born; else they are one group
constexpr std::uint32_t kWhole = ~std::uint32_t{0};
constexpr std::size_t kMostKept = std::size_t{1} << 24;  // nodes of trees to come back to

// Those at the chosen positions are taken from a list, or all.
std::vector<Index> take(std::vector<Index>& from, std::uint32_t chosen) {
  if (chosen == kWhole) return std::exchange(from, {});
  std::vector<Index> taken, left;
  for (std::size_t k = 0; k < from.size(); ++k) ((chosen >> k & 1) != 0 ? taken : left).push_back(from[k]);
  from.swap(left);
  return taken;
}

}  // namespace

bool StackSearch::serves(const Sections& sections, Bytes capacity, Bytes step, Index most_holes) {
  const auto is_full = [&](Bytes load) { return load <= capacity && (capacity - load) / step <= most_holes; };
  const auto is_aligned = [&](Bytes alignment) { return step % alignment == 0; };
  const auto is_none = [](Bytes padding) { return padding == 0; };
  return sections.items() > 0 && std::all_of(sections.load.begin(), sections.load.end(), is_full) &&
         std::all_of(sections.padding.begin(), sections.padding.end(), is_none) &&
         std::all_of(sections.alignment.begin(), sections.alignment.end(), is_aligned);
}

StackSearch::StackSearch(const Sections& sections, Bytes step, std::uint64_t seed, bool vary)
    : sections_(sections),
      step_(step),
      seed_(seed),
      born_(static_cast<std::size_t>(sections.count)),
      dying_(static_cast<std::size_t>(sections.count)),
      exchange_(sections.items() + 2 * kMostHoles),
      chance_(seed),
      may_vary_(vary),
      offset_(static_cast<std::size_t>(sections.items() + 2 * kMostHoles), 0) {
  for (Index x = 0; x < sections.items(); ++x) {
    born_[at(sections.first[at(x)])].push_back(x);
    dying_[at(sections.last[at(x)] - 1)].push_back(x);
  }
}

Decision StackSearch::run(Bytes capacity, std::int64_t number, RunLimits limits) {
  start(capacity, number);
  for (bool possible = true;;) {
    if (limits.steps-- <= 0 || work_ >= limits.work) return Decision::undecided;
    limits.deadline.tick(tree_.size());
    if (!possible) {
      if (frames_.empty()) return skipped_ ? Decision::undecided : Decision::infeasible;
      possible = enter(next_way());
      continue;
    }
    if (is_entered()) {
      if (++section_ == sections_.count) break;
      enter_section();
    }
    std::vector<Group> ways = groups();
    if (ways.empty()) {
      possible = false;
      continue;
    }
    const Group first = ways.front();
    if (ways.size() > 1) {
      if ((kept_ += tree_.size()) > kMostKept) return Decision::undecided;
      frames_.push_back({tree_, section_, out_, in_, std::move(ways), 1, done_.size()});
    }
    possible = enter(first);
  }
  read_back(limits.deadline);
  return Decision::found;
}

void StackSearch::start(Bytes capacity, std::int64_t number) {
  capacity_ = capacity;
  backward_ = number % 2 == 1;
  vary_ = may_vary_ && number > 1;
  skipped_ = false;
  tree_.clear();
  chance_ = Chance(seed_ + static_cast<std::uint64_t>(number) * 0x632be59bd9b4e019ull);
  Items items = backward_ ? dying_.back() : born_.front();
  add_holes(holes_at(backward_ ? sections_.count - 1 : 0), items);
  tree_ = any_order(items);
  section_ = 0;
  out_.clear();
  in_.clear();
  done_.clear();
  frames_.clear();
  kept_ = 0;
}

void StackSearch::enter_section() {
  const std::size_t s = at(backward_ ? sections_.count - section_ : section_);
  out_ = backward_ ? born_[s] : dying_[s - 1];
  in_ = backward_ ? dying_[s - 1] : born_[s];
  const Items holes_before = holes();
  out_.insert(out_.end(), holes_before.begin(), holes_before.end());
}

// Holes that were there before may stay.
bool StackSearch::is_entered() const { return in_.empty() && (out_.empty() || is_hole(out_.front())); }

StackSearch::Items StackSearch::holes() const {
  Items holes;
  for (const StackNode& node : tree_)
    if (is_hole(node.item)) holes.push_back(node.item);
  return holes;
}

// How many holes may still be born.
Bytes StackSearch::room() const {
  const Index s = backward_ ? sections_.count - 1 - section_ : section_;
  const auto stay = std::count_if(out_.begin(), out_.end(), [&](Index x) { return is_hole(x); });
  return holes_at(s) - (static_cast<Bytes>(holes().size()) - stay);
}

// So many that are not in the tree.
void StackSearch::add_holes(Bytes count, Items& to) const {
  const Items used = holes();
  for (Index hole = sections_.items(); count > 0; ++hole) {
    if (std::find(used.begin(), used.end(), hole) != used.end()) continue;
    to.push_back(hole);
    --count;
  }
}

Bytes StackSearch::sum_of(std::span<const Index> items, std::uint32_t chosen) const {
  Bytes sum = 0;
  for (; chosen != 0; chosen &= chosen - 1) sum += size_of(items[at(std::countr_zero(chosen))]);
  return sum;
}

// False where the group is possible in no order.
bool StackSearch::enter(const Group& group) {
  const Items out = take(out_, group.out);
  Items in = take(in_, group.in);
  add_holes(group.holes, in);
  work_ += static_cast<std::int64_t>(tree_.size());
  done_.emplace_back();
  return exchange_.exchange(tree_, out, in, done_.back());
}

// Back to where something is left to try.
StackSearch::Group StackSearch::next_way() {
  Frame& frame = frames_.back();
  section_ = frame.section;
  done_.resize(frame.done);
  const Group way = frame.ways[frame.next++];
  if (frame.next < frame.ways.size()) {
    tree_ = frame.tree;
    out_ = frame.out;
    in_ = frame.in;
  } else {
    tree_ = std::move(frame.tree);
    out_ = std::move(frame.out);
    in_ = std::move(frame.in);
    frames_.pop_back();
    kept_ -= tree_.size();
  }
  return way;
}

// The ways in which the first that is to die may be in a group with others; where none is left, the first that is born.
std::vector<StackSearch::Group> StackSearch::groups() {
  if (out_.empty()) return {};
  const Bytes room = this->room();
  const bool is_full = room == 0 && !is_hole(out_.back());
  if (is_full && (out_.size() == 1 || in_.size() == 1)) return {{kWhole, kWhole, 0, 0}};
  if (out_.size() > kMostDivided || in_.size() > kMostDivided) return skip();
  const bool dies = !out_.empty() && !is_hole(out_.front());
  const std::uint32_t outs = 1u << out_.size(), ins = 1u << in_.size();
  sums_.clear();
  for (std::uint32_t in = dies ? 0 : 1; in < ins; in += dies ? 1 : 2) sums_.emplace_back(sum_of(in_, in), in);
  std::sort(sums_.begin(), sums_.end());
  work_ += outs + ins;
  const std::vector<std::uint32_t> twins = twins_before();
  const auto exchanges_twins = [&](std::uint32_t out) {
    for (std::uint32_t rest = out; rest != 0; rest &= rest - 1)
      if ((out & twins[at(std::countr_zero(rest))]) != twins[at(std::countr_zero(rest))]) return true;
    return false;
  };
  std::vector<Group> ways;
  for (std::uint32_t out = 1; out < outs; out += dies ? 2 : 1) {
    if (exchanges_twins(out)) continue;
    const Bytes sum = sum_of(out_, out);
    auto found = std::lower_bound(sums_.begin(), sums_.end(), std::pair{sum - room * step_, std::uint32_t{0}});
    for (; found != sums_.end() && found->first <= sum; ++found) {
      const double noise = vary_ ? 1 + chance_.share() : 1;
      const double order = (std::popcount(out) + std::popcount(found->second)) * noise;
      ways.push_back({out, found->second, (sum - found->first) / step_, order});
    }
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Group& a, const Group& b) { return a.order < b.order; });
  return ways;
}

// Per position of those that die and of holes: the hole before it that may change places with it, as a bit.
std::vector<std::uint32_t> StackSearch::twins_before() const {
  std::vector<std::uint32_t> twins(out_.size(), 0);
  if (out_.size() < 2 || !is_hole(out_[out_.size() - 2])) return twins;
  std::vector<Index> above, parent(out_.size(), kNone);  // nodes
  for (Index node = 0; node < static_cast<Index>(tree_.size()); ++node) {
    while (!above.empty() && node >= above.back() + tree_[at(above.back())].nodes) above.pop_back();
    const Index item = tree_[at(node)].item;
    if (item < 0) above.push_back(node);
    if (!is_hole(item) || above.empty() || tree_[at(above.back())].item != StackNode::kAny) continue;
    const auto k = std::find(out_.begin(), out_.end(), item) - out_.begin();
    if (at(k) < out_.size()) parent[at(k)] = above.back();
  }
  for (std::size_t k = 0; k < out_.size(); ++k)
    for (std::size_t before = 0; before < k; ++before)
      if (parent[k] != kNone && parent[before] == parent[k]) twins[k] = std::uint32_t{1} << before;
  return twins;
}

// All in one group.
std::vector<StackSearch::Group> StackSearch::skip() {
  skipped_ = true;
  Bytes free = 0;
  for (Index x : out_) free += size_of(x);
  for (Index x : in_) free -= size_of(x);
  return {{kWhole, kWhole, free / step_, 0}};
}

// Any order of the last stack is one of a plan; the exchanges say what lay there before.
void StackSearch::read_back(const Deadline& deadline) {
  Items stack = order_of(tree_);
  const auto lay = [&](std::span<const Index> items, Bytes offset) {
    for (Index x : items) {
      offset_[at(x)] = offset;
      offset += size_of(x);
    }
  };
  lay(stack, 0);
  for (auto exchange = done_.rbegin(); exchange != done_.rend(); ++exchange) {
    work_ += static_cast<std::int64_t>(stack.size());
    deadline.tick(stack.size());
    exchange->undo(stack);
    const auto is_out = [&](Index x) {
      return std::find(exchange->out.begin(), exchange->out.end(), x) != exchange->out.end();
    };
    const auto begin = std::find_if(stack.begin(), stack.end(), is_out);
    Bytes offset = kMaxBytes;
    for (Index x : exchange->in) offset = std::min(offset, offset_[at(x)]);
    lay({begin, begin + static_cast<std::ptrdiff_t>(exchange->out.size())}, offset);
  }
}

}  // namespace memplan
