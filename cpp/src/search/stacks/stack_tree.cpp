#include "search/stacks/stack_tree.hpp"

#include <algorithm>

namespace memplan {

StackTree any_order(std::span<const Index> items) {
  StackTree tree;
  if (items.size() > 1) tree.push_back({StackNode::kAny, static_cast<Index>(items.size()) + 1});
  for (Index item : items) tree.push_back({item, 1});
  return tree;
}

std::vector<Index> order_of(const StackTree& tree) {
  std::vector<Index> order;
  for (const StackNode& node : tree)
    if (node.item >= 0) order.push_back(node.item);
  return order;
}

void Exchange::undo(std::vector<Index>& stack) const {
  const auto is_in = [&](Index item) { return std::find(in.begin(), in.end(), item) != in.end(); };
  const auto begin = std::find_if(stack.begin(), stack.end(), is_in);
  const bool is_above = std::find(stack.begin(), begin, beside) == begin;
  std::vector<Index> before = out;
  if (beside != kNone && is_above != above) std::reverse(before.begin(), before.end());
  const auto place = stack.erase(begin, begin + static_cast<std::ptrdiff_t>(in.size()));
  stack.insert(place, before.begin(), before.end());
}

bool StackExchange::exchange(StackTree& tree, std::span<const Index> out, std::span<const Index> in, Exchange& done) {
  done = {{in.begin(), in.end()}, {}, kNone, false};
  tree_ = &tree;
  for (Index item : out) is_out_[at(item)] = true;
  count();
  for (Index item : out) is_out_[at(item)] = false;
  const Index root = root_of(out.size());
  next_.assign(tree.begin(), tree.begin() + root);
  if (!rebuild(root, in, done)) return false;
  const Index nodes = tree[at(root)].nodes;
  const Index more = static_cast<Index>(next_.size()) - root - nodes;
  for (Index node : above_) next_[at(node)].nodes += more;
  next_.insert(next_.end(), tree.begin() + root + nodes, tree.end());
  tree.swap(next_);
  return true;
}

void StackExchange::count() {
  outs_.assign(1, 0);
  leaves_.assign(1, 0);
  for (const StackNode& node : *tree_) {
    const bool is_leaf = node.item >= 0;
    outs_.push_back(outs_.back() + Index{is_leaf && is_out_[at(node.item)]});
    leaves_.push_back(leaves_.back() + Index{is_leaf});
  }
}

StackExchange::Filled StackExchange::filled(Index node) const {
  const std::size_t begin = at(node), end = begin + at((*tree_)[begin].nodes);
  const Index out = outs_[end] - outs_[begin];
  if (out == 0) return Filled::none;
  return out == leaves_[end] - leaves_[begin] ? Filled::all : Filled::partly;
}

// The lowest node with all that goes out, which are so many.
Index StackExchange::root_of(std::size_t count) {
  const auto holds_all = [&](Index node) {
    return at(outs_[at(node + (*tree_)[at(node)].nodes)] - outs_[at(node)]) == count;
  };
  above_.clear();
  for (Index root = 0;;) {
    const std::vector<Index> below = children(root);
    const auto next = std::find_if(below.begin(), below.end(), holds_all);
    if (next == below.end()) return root;
    above_.push_back(root);
    root = *next;
  }
}

// Writes the subtree anew, with `in` for what goes out.
bool StackExchange::rebuild(Index root, std::span<const Index> in, Exchange& done) {
  Piece apart;  // on either side of what is in line
  Line below, above;
  if (filled(root) == Filled::all) {
    add_items(root, done.out);
  } else if ((*tree_)[at(root)].item == StackNode::kAny) {
    if (!part_any(root, apart, below, above, done.out)) return false;
  } else if (!part_either(root, below, above, done.out)) {
    return false;
  }
  if (!below.empty() || !above.empty()) {
    done.above = below.empty();
    done.beside = item_of(done.above ? above.front() : below.back());
  }
  const std::size_t outer = next_.size();
  for (Index node : apart) copy({node});
  const std::size_t inner = next_.size();
  for (const Piece& piece : below) copy(piece);
  const StackTree entering = any_order(in);
  next_.insert(next_.end(), entering.begin(), entering.end());
  for (const Piece& piece : above) copy(piece);
  join(inner, below.size() + 1 + above.size(), StackNode::kEither);
  join(outer, apart.size() + 1, StackNode::kAny);
  return true;
}

// What goes out is in line with what stays in those of the children that hold both, of which there are two at most.
bool StackExchange::part_any(Index root, Piece& apart, Line& below, Line& above, std::vector<Index>& out) const {
  Piece whole, mixed;
  for (Index child : children(root)) {
    const Filled how = filled(child);
    (how == Filled::none ? apart : how == Filled::all ? whole : mixed).push_back(child);
  }
  if (mixed.size() > 2) return false;
  if (!mixed.empty() && !line_up(mixed[0], below, out)) return false;
  for (Index child : whole) add_items(child, out);
  if (mixed.size() < 2) return true;
  std::vector<Index> rest;
  if (!line_up(mixed[1], above, rest)) return false;
  std::reverse(above.begin(), above.end());
  out.insert(out.end(), rest.rbegin(), rest.rend());
  return true;
}

// Children that stay, then those that go out, then others that stay; one at either border may hold both.
bool StackExchange::part_either(Index root, Line& below, Line& above, std::vector<Index>& out) const {
  const std::vector<Index> all = children(root);
  const auto goes = [&](Index child) { return filled(child) != Filled::none; };
  const auto begin = std::find_if(all.begin(), all.end(), goes);
  const auto end = std::find_if(all.rbegin(), all.rend(), goes).base();
  for (auto child = all.begin(); child != begin; ++child) below.push_back({*child});
  for (auto child = begin; child != end; ++child) {
    const Filled how = filled(*child);
    if (how == Filled::all) {
      add_items(*child, out);
    } else if (how == Filled::partly && child == begin) {
      if (!line_up(*child, below, out)) return false;
    } else if (how == Filled::partly && child + 1 == end) {
      std::vector<Index> rest;
      if (!line_up(*child, above, rest)) return false;
      std::reverse(above.begin(), above.end());
      out.insert(out.end(), rest.rbegin(), rest.rend());
    } else {
      return false;
    }
  }
  for (auto child = end; child != all.end(); ++child) above.push_back({*child});
  return true;
}

// What stays of the node, in line, and above it what goes out; false where it cannot be so.
bool StackExchange::line_up(Index node, Line& stay, std::vector<Index>& out) const {
  std::vector<Index> all = children(node);
  Index mixed = kNone;
  if ((*tree_)[at(node)].item == StackNode::kAny) {
    Piece staying, whole;
    for (Index child : all) {
      const Filled how = filled(child);
      if (how == Filled::partly && mixed != kNone) return false;
      if (how == Filled::partly) mixed = child;
      if (how != Filled::partly) (how == Filled::none ? staying : whole).push_back(child);
    }
    if (!staying.empty()) stay.push_back(staying);
    if (mixed != kNone && !line_up(mixed, stay, out)) return false;
    for (Index child : whole) add_items(child, out);
    return true;
  }
  if (filled(all.front()) == Filled::all || filled(all.back()) == Filled::none) std::reverse(all.begin(), all.end());
  bool leaving = false;
  for (Index child : all) {
    const Filled how = filled(child);
    if (leaving && how != Filled::all) return false;
    leaving = how != Filled::none;
    if (how == Filled::none) stay.push_back({child});
    if (how == Filled::partly && !line_up(child, stay, out)) return false;
    if (how == Filled::all) add_items(child, out);
  }
  return true;
}

std::vector<Index> StackExchange::children(Index node) const {
  std::vector<Index> all;
  const Index end = node + (*tree_)[at(node)].nodes;
  for (Index child = node + 1; child < end; child += (*tree_)[at(child)].nodes) all.push_back(child);
  return all;
}

Index StackExchange::item_of(const Piece& piece) const {
  Index node = piece.front();
  while ((*tree_)[at(node)].item < 0) ++node;
  return (*tree_)[at(node)].item;
}

void StackExchange::add_items(Index node, std::vector<Index>& into) const {
  for (Index end = node + (*tree_)[at(node)].nodes; node < end; ++node)
    if ((*tree_)[at(node)].item >= 0) into.push_back((*tree_)[at(node)].item);
}

void StackExchange::copy(const Piece& piece) {
  const std::size_t begin = next_.size();
  for (Index node : piece) {
    const auto from = tree_->begin() + node;
    next_.insert(next_.end(), from, from + from->nodes);
  }
  join(begin, piece.size(), StackNode::kAny);
}

// Makes what was written from there on, so many children, one node. Of two children either order is any.
void StackExchange::join(std::size_t begin, std::size_t children, Index kind) {
  if (children < 2) return;
  if (children == 2) kind = StackNode::kAny;
  const Index nodes = static_cast<Index>(next_.size() - begin) + 1;
  next_.insert(next_.begin() + static_cast<std::ptrdiff_t>(begin), StackNode{kind, nodes});
}

}  // namespace memplan
