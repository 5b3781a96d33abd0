#include "search/valley/floors.hpp"

#include <algorithm>
#include <bit>

namespace memplan {

namespace {

constexpr std::size_t kTicksPerItem = 8;

}  // namespace

Floors::Floors(const Sections& sections, const Deadline& deadline) : sections_(sections) {
  leaves_ = std::bit_ceil(static_cast<std::size_t>(std::max<Index>(1, sections.count)));
  build_tree(deadline);
}

// Each item is put on the fewest nodes whose sections are exactly those that it covers.
void Floors::build_tree(const Deadline& deadline) {
  const auto for_each_node = [&](Index item, auto&& f) {
    deadline.tick(kTicksPerItem);
    std::size_t low = leaves_ + at(sections_.first[item]);
    std::size_t high = leaves_ + at(sections_.last[item]);
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) f(low++);
      if (high % 2 == 1) f(--high);
    }
  };
  node_begin_.assign(2 * leaves_ + 1, 0);
  for (Index x = 0; x < sections_.items(); ++x) for_each_node(x, [&](std::size_t node) { ++node_begin_[node + 1]; });
  for (std::size_t node = 0; node < 2 * leaves_; ++node) node_begin_[node + 1] += node_begin_[node];
  node_items_.resize(node_begin_.back());
  std::vector<std::size_t> next(node_begin_.begin(), node_begin_.end() - 1);
  for (Index x = 0; x < sections_.items(); ++x)
    for_each_node(x, [&](std::size_t node) { node_items_[next[node]++] = x; });
}

bool Floors::reset(Bytes capacity) {
  const Index n = sections_.items();
  item_trail_.clear();
  section_trail_.clear();
  node_trail_.clear();
  base_.assign(static_cast<std::size_t>(n) + 1, 0);
  base_.back() = kPlaced;
  floor_.assign(static_cast<std::size_t>(sections_.count), 0);
  capacity_ = capacity;
  slack_.resize(floor_.size());
  for (std::size_t s = 0; s < slack_.size(); ++s) slack_[s] = capacity - sections_.load[s];
  support_.assign(floor_.size(), n);
  Index reaches = n;  // the item that reaches farthest
  for (Index s = 0; s < sections_.count; ++s) {
    for (Index x = sections_.begins[s]; x < sections_.begins[s + 1]; ++x)
      if (reaches == n || sections_.last[x] > sections_.last[reaches]) reaches = x;
    support_[s] = reaches;
  }
  node_bound_.assign(2 * leaves_, kPlaced);
  node_lowest_.assign(2 * leaves_, n);
  for (std::size_t node = 0; node < 2 * leaves_; ++node) {
    if (node_begin_[node] == node_begin_[node + 1]) continue;
    node_bound_[node] = 0;
    node_lowest_[node] = node_items_[node_begin_[node]];
  }
  const bool fits = std::all_of(slack_.begin(), slack_.end(), [](Bytes slack) { return slack >= 0; });
  return fits && (sections_.lowest.empty() || raise_to_lowest());
}

// The bases with which items begin, if they are not 0.
bool Floors::raise_to_lowest() {
  for (Index x = 0; x < sections_.items(); ++x) base_[x] = aligned(sections_.lowest[x], x);
  from_ = 0;
  to_ = sections_.count;
  waste_ = 0;
  const bool alive = repair();
  section_trail_.clear();
  node_trail_.clear();
  return alive;
}

void Floors::undo(const Mark& mark) {
  from_ = sections_.count;
  to_ = 0;
  item_trail_.take_back(mark.items, [&](const ItemChange& was) {
    base_[was.item] = was.base;
    from_ = std::min(from_, sections_.first[was.item]);
    to_ = std::max(to_, sections_.last[was.item]);
  });
  section_trail_.take_back(mark.sections, [&](const SectionChange& was) {
    if (was.section == kNone) {
      const Index first = sections_.first[was.support];
      const Index last = sections_.last[was.support];
      std::fill(floor_.begin() + first, floor_.begin() + last, was.floor);
      std::fill(support_.begin() + first, support_.begin() + last, was.support);
      return;
    }
    floor_[was.section] = was.floor;
    slack_[was.section] = was.slack;
    support_[was.section] = was.support;
  });
  node_trail_.take_back(mark.nodes, [&](const NodeChange& was) {
    node_lowest_[was.node] = was.lowest;
    node_bound_[was.node] = was.bound;
  });
}

void Floors::forget(const Mark& mark) {
  item_trail_.forget(mark.items);
  section_trail_.forget(mark.sections);
  node_trail_.forget(mark.nodes);
}

// The bound of a node becomes the least base of its items again.
void Floors::look_again(std::size_t node) {
  const Bytes before = node_bound_[node];
  node_trail_.push({node, node_lowest_[node], before});
  Bytes bound = kPlaced;
  Index lowest = sections_.items();
  std::size_t k = node_begin_[node];
  for (; k < node_begin_[node + 1] && bound > before; ++k) {
    const Index item = node_items_[k];
    if (base_[item] >= bound) continue;
    bound = base_[item];
    lowest = item;
  }
  work_ += static_cast<std::int64_t>(k - node_begin_[node]);
  node_bound_[node] = bound;
  node_lowest_[node] = lowest;
}

// The floors of the sections in [from, to) become the least base of the items that cover them, of which `lowest` is the
// least on the nodes above this one; false when that leaves a slack below zero.
bool Floors::raise_floors(const Node& node, Index from, Index to, Index lowest) {
  if (node_bound_[node.index] < base_[lowest]) {
    if (base_[node_lowest_[node.index]] != node_bound_[node.index]) look_again(node.index);
    if (node_bound_[node.index] < base_[lowest]) lowest = node_lowest_[node.index];
  }
  if (node.end - node.begin == 1) return raise_floor(node.begin, lowest);
  const Index middle = node.begin + (node.end - node.begin) / 2;
  return (from >= middle || raise_floors({2 * node.index, node.begin, middle}, from, to, lowest)) &&
         (to <= middle || raise_floors({2 * node.index + 1, middle, node.end}, from, to, lowest));
}

bool Floors::raise_floor(Index section, Index support) {
  const Bytes rise = base_[support] - floor_[section];
  section_trail_.push({section, support_[section], floor_[section], slack_[section]});
  floor_[section] = base_[support];
  support_[section] = support;
  if (base_[support] == kPlaced) return true;
  waste_ += static_cast<double>(rise) / static_cast<double>(slack_[section] + 1);
  slack_[section] -= rise;
  if (slack_[section] >= 0) return true;
  dead_at_ = section;
  return false;
}

// Finds the floors again that have lost their support.
bool Floors::repair() {
  const auto holds = [&](Index s) { return base_[support_[s]] == floor_[s]; };
  for (Index s = from_; s < to_; ++s) {
    if (holds(s)) continue;
    const Index begin = s;
    while (s + 1 < to_ && !holds(s + 1)) ++s;
    work_ += s + 1 - begin;
    if (!raise_floors({1, 0, static_cast<Index>(leaves_)}, begin, s + 1, sections_.items())) return false;
  }
  return true;
}

bool Floors::place(Index item) {
  const Bytes top = base_[item] + sections_.size[item];
  const Index begin = sections_.first[item];
  const Index end = sections_.last[item];
  from_ = begin;
  to_ = end;
  waste_ = 0;
  dead_at_ = begin;
  if (top - sections_.padding[item] > capacity_) return false;
  section_trail_.push({kNone, item, base_[item], 0});
  set_base(item, kPlaced);
  Index reach = begin;  // up to there some item rests on the top, `rests`
  Index rests = kNone;
  const auto lift = [&](Index y) {
    if (base_[y] > top) return;
    if (base_[y] < top) {
      set_base(y, aligned(top, y));
      from_ = std::min(from_, sections_.first[y]);
      to_ = std::max(to_, sections_.last[y]);
    }
    if (base_[y] == top && sections_.last[y] > reach) {
      reach = sections_.last[y];
      rests = y;
    }
  };
  for (std::size_t node = leaves_ + at(begin); node > 0; node /= 2) {
    if (node_bound_[node] > top) continue;
    for (std::size_t k = node_begin_[node]; k < node_begin_[node + 1]; ++k) lift(node_items_[k]);
    work_ += static_cast<std::int64_t>(node_begin_[node + 1] - node_begin_[node]);
  }
  Index y = sections_.begins[begin + 1];
  for (Index s = begin; s < end; ++s) {
    if (s > begin)
      for (; y < sections_.begins[s + 1]; ++y) lift(y);
    floor_[s] = top;
    support_[s] = s < reach ? rests : item;
  }
  work_ += to_ - from_ + sections_.begins[end] - sections_.begins[begin + 1];
  return repair();
}

bool Floors::rule_out(Index section, Bytes height) {
  from_ = section;
  to_ = section + 1;
  waste_ = 0;
  for (std::size_t node = leaves_ + at(section); node > 0; node /= 2) {
    if (node_bound_[node] >= height) continue;
    for (std::size_t k = node_begin_[node]; k < node_begin_[node + 1]; ++k) {
      const Index y = node_items_[k];
      if (base_[y] >= height) continue;
      set_base(y, aligned(height, y));
      from_ = std::min(from_, sections_.first[y]);
      to_ = std::max(to_, sections_.last[y]);
    }
    work_ += static_cast<std::int64_t>(node_begin_[node + 1] - node_begin_[node]);
  }
  work_ += to_ - from_;
  return repair();
}

}  // namespace memplan
