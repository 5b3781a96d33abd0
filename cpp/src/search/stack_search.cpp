#include "search/stack_search.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace memplan {

namespace {

constexpr std::size_t kMostDivided = 12;  // of those that die, and of those that are born; else they are one group
constexpr std::uint32_t kWhole = 0;
constexpr std::size_t kMostKept = std::size_t{1} << 24;  // nodes of trees to come back to

Bytes sum_of(const Sections& sections, std::span<const Index> items, std::uint32_t chosen) {
  Bytes sum = 0;
  for (; chosen != 0; chosen &= chosen - 1) sum += sections.size[at(items[at(std::countr_zero(chosen))])];
  return sum;
}

// Those at the chosen positions are taken from a list, or all.
std::vector<Index> take(std::vector<Index>& from, std::uint32_t chosen) {
  if (chosen == kWhole) return std::exchange(from, {});
  std::vector<Index> taken, left;
  for (std::size_t k = 0; k < from.size(); ++k) ((chosen >> k & 1) != 0 ? taken : left).push_back(from[k]);
  from.swap(left);
  return taken;
}

}  // namespace

bool StackSearch::serves(const Sections& sections) {
  const Bytes load = sections.highest_load();
  Bytes divisor = 0;
  for (Bytes size : sections.size) divisor = std::gcd(divisor, size);
  const auto is_full = [&](Bytes bytes) { return bytes == load; };
  const auto is_aligned = [&](Bytes alignment) { return divisor % alignment == 0; };
  const auto is_none = [](Bytes padding) { return padding == 0; };
  return sections.items() > 0 && std::all_of(sections.load.begin(), sections.load.end(), is_full) &&
         std::all_of(sections.padding.begin(), sections.padding.end(), is_none) &&
         std::all_of(sections.alignment.begin(), sections.alignment.end(), is_aligned);
}

StackSearch::StackSearch(const Sections& sections, std::uint64_t seed, bool vary)
    : sections_(sections),
      seed_(seed),
      born_(static_cast<std::size_t>(sections.count)),
      dying_(static_cast<std::size_t>(sections.count)),
      exchange_(sections.items()),
      chance_(seed),
      may_vary_(vary),
      offset_(static_cast<std::size_t>(sections.items()), 0) {
  for (Index x = 0; x < sections.items(); ++x) {
    born_[at(sections.first[at(x)])].push_back(x);
    dying_[at(sections.last[at(x)] - 1)].push_back(x);
  }
}

StackSearch::Outcome StackSearch::run(std::int64_t number, std::int64_t exchanges, const Deadline& deadline) {
  start(number);
  for (bool possible = true;;) {
    if (exchanges-- <= 0) return Outcome::undecided;
    deadline.tick(tree_.size());
    if (!possible) {
      if (frames_.empty()) return skipped_ ? Outcome::undecided : Outcome::infeasible;
      possible = enter(next_way());
      continue;
    }
    if (out_.empty()) {
      if (++section_ == sections_.count) break;
      enter_section();
    }
    std::vector<Group> ways = groups();
    const Group first = ways.front();
    if (ways.size() > 1) {
      if ((kept_ += tree_.size()) > kMostKept) return Outcome::undecided;
      frames_.push_back({tree_, section_, out_, in_, std::move(ways), 1, done_.size()});
    }
    possible = enter(first);
  }
  read_back(deadline);
  return Outcome::found;
}

void StackSearch::start(std::int64_t number) {
  backward_ = number % 2 == 1;
  vary_ = may_vary_ && number > 1;
  skipped_ = false;
  chance_ = Chance(seed_ + static_cast<std::uint64_t>(number) * 0x632be59bd9b4e019ull);
  tree_ = any_order(backward_ ? dying_.back() : born_.front());
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
}

// False where the group is possible in no order.
bool StackSearch::enter(const Group& group) {
  const Items out = take(out_, group.out), in = take(in_, group.in);
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

// The ways in which the first that is to die may be in a group with others.
std::vector<StackSearch::Group> StackSearch::groups() {
  if (out_.size() == 1 || in_.size() == 1) return {{kWhole, kWhole, 0}};
  if (out_.size() > kMostDivided || in_.size() > kMostDivided) {
    skipped_ = true;
    return {{kWhole, kWhole, 0}};
  }
  const std::uint32_t outs = 1u << out_.size(), ins = 1u << in_.size();
  sums_.clear();
  for (std::uint32_t in = 1; in < ins; ++in) sums_.emplace_back(sum_of(sections_, in_, in), in);
  std::sort(sums_.begin(), sums_.end());
  work_ += outs + ins;
  std::vector<Group> ways;
  for (std::uint32_t out = 1; out < outs; out += 2) {
    const Bytes sum = sum_of(sections_, out_, out);
    auto same = std::lower_bound(sums_.begin(), sums_.end(), std::pair{sum, std::uint32_t{0}});
    for (; same != sums_.end() && same->first == sum; ++same) {
      const double noise = vary_ ? 1 + chance_.share() : 1;
      ways.push_back({out, same->second, (std::popcount(out) + std::popcount(same->second)) * noise});
    }
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Group& a, const Group& b) { return a.order < b.order; });
  return ways;
}

// Any order of the last stack is one of a plan; the exchanges say what lay there before.
void StackSearch::read_back(const Deadline& deadline) {
  Items stack = order_of(tree_);
  const auto lay = [&](std::span<const Index> items, Bytes offset) {
    for (Index x : items) {
      offset_[at(x)] = offset;
      offset += sections_.size[at(x)];
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
