#include "placing/free_blocks.hpp"

#include <algorithm>

namespace memplan {

namespace {

bool fits(Bytes begin, Bytes block, Bytes size, Bytes alignment) {
  return align_up(begin, alignment) - begin <= block - size;
}

// Scrambles a counter into a priority: splitmix64 (Steele, Lea, Flood 2014), the same in every run.
std::uint64_t scrambled(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

std::optional<Bytes> FreeBlocks::lowest(Bytes size, Bytes alignment) const {
  const Node node = lowest_fit(root_, size, alignment);
  if (node == 0) return std::nullopt;
  return align_up(block(node).begin, alignment);
}

std::optional<Bytes> FreeBlocks::tightest(Bytes size, Bytes alignment) const {
  for (auto it = by_size_.lower_bound({size, 0}); it != by_size_.end(); ++it)
    if (fits(it->second, it->first, size, alignment)) return align_up(it->second, alignment);
  return std::nullopt;
}

std::optional<Bytes> FreeBlocks::largest(Bytes size, Bytes alignment) const {
  for (auto it = by_size_.rbegin(); it != by_size_.rend() && it->first >= size; ++it)
    if (fits(it->second, it->first, size, alignment)) return align_up(it->second, alignment);
  return std::nullopt;
}

Bytes FreeBlocks::on_top(Bytes alignment) const {
  const Node last = last_at_or_before(top_);
  return align_up(last != 0 && end(last) == top_ ? block(last).begin : top_, alignment);
}

void FreeBlocks::take(Bytes offset, Bytes size) {
  if (offset > top_) {  // bytes that alignment skips above the top are free like any other
    give_back(top_, offset - top_);
    top_ = offset;
  }
  const Node node = last_at_or_before(offset);
  const bool inside = node != 0 && offset < end(node);
  const Bytes begin = inside ? block(node).begin : top_;
  const Bytes limit = inside ? end(node) : top_;
  if (inside) erase(begin, limit - begin);
  insert(begin, offset);
  insert(offset + size, limit);
  top_ = std::max(top_, offset + size);
}

void FreeBlocks::give_back(Bytes offset, Bytes size) {
  Bytes begin = offset;
  Bytes limit = offset + size;
  if (const Node before = last_at_or_before(offset); before != 0 && end(before) == offset) {
    begin = block(before).begin;
    erase(begin, offset - begin);
  }
  if (const Node after = first_after(offset); after != 0 && block(after).begin == limit) {
    limit = end(after);
    erase(block(after).begin, block(after).size);
  }
  insert(begin, limit);
}

FreeBlocks::Node FreeBlocks::last_at_or_before(Bytes address) const {
  Node best = 0;
  for (Node node = root_; node != 0;) {
    const bool candidate = block(node).begin <= address;
    if (candidate) best = node;
    node = candidate ? block(node).right : block(node).left;
  }
  return best;
}

FreeBlocks::Node FreeBlocks::first_after(Bytes address) const {
  Node best = 0;
  for (Node node = root_; node != 0;) {
    const bool candidate = block(node).begin > address;
    if (candidate) best = node;
    node = candidate ? block(node).left : block(node).right;
  }
  return best;
}

FreeBlocks::Node FreeBlocks::lowest_fit(Node node, Bytes size, Bytes alignment) const {
  if (node == 0 || block(node).largest < size) return 0;
  if (const Node found = lowest_fit(block(node).left, size, alignment); found != 0) return found;
  if (block(node).size >= size && fits(block(node).begin, block(node).size, size, alignment)) return node;
  return lowest_fit(block(node).right, size, alignment);
}

void FreeBlocks::insert(Bytes begin, Bytes end) {
  if (begin >= end) return;
  by_size_.emplace(end - begin, begin);
  const Node node = make(begin, end - begin);
  const auto [low, high] = split(root_, begin);
  root_ = join(join(low, node), high);
}

void FreeBlocks::erase(Bytes begin, Bytes size) {
  by_size_.erase({size, begin});
  const auto [low, rest] = split(root_, begin);
  const auto [node, high] = split(rest, begin + 1);
  unused_.push_back(node);
  root_ = join(low, high);
}

std::pair<FreeBlocks::Node, FreeBlocks::Node> FreeBlocks::split(Node node, Bytes begin) {
  if (node == 0) return {0, 0};
  if (block(node).begin < begin) {
    const auto [low, high] = split(block(node).right, begin);
    block(node).right = low;
    refresh(node);
    return {node, high};
  }
  const auto [low, high] = split(block(node).left, begin);
  block(node).left = high;
  refresh(node);
  return {low, node};
}

FreeBlocks::Node FreeBlocks::join(Node low, Node high) {
  if (low == 0 || high == 0) return low == 0 ? high : low;
  if (block(low).priority > block(high).priority) {
    block(low).right = join(block(low).right, high);
    refresh(low);
    return low;
  }
  block(high).left = join(low, block(high).left);
  refresh(high);
  return high;
}

FreeBlocks::Node FreeBlocks::make(Bytes begin, Bytes size) {
  Node node;
  if (unused_.empty()) {
    node = static_cast<Node>(nodes_.size());
    nodes_.emplace_back();
  } else {
    node = unused_.back();
    unused_.pop_back();
  }
  block(node) = {begin, size, size, 0, 0, scrambled(made_++)};
  return node;
}

void FreeBlocks::refresh(Node node) {
  block(node).largest = std::max({block(node).size, block(block(node).left).largest, block(block(node).right).largest});
}

}  // namespace memplan
