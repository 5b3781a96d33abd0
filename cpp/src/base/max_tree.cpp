#include "base/max_tree.hpp"

#include <algorithm>
#include <bit>

namespace memplan {

MaxTree::MaxTree(std::span<const Bytes> values)
    : size_(values.size()), largest_(2 * std::bit_ceil(size_ + 1)), added_(largest_.size()) {
  if (size_ > 0) build(root(), values);
}

void MaxTree::build(Node node, std::span<const Bytes> values) {
  if (node.is_leaf()) {
    largest_[node.number] = values[node.run.begin];
    return;
  }
  build(node.left(), values);
  build(node.right(), values);
  largest_[node.number] = std::max(largest_[2 * node.number], largest_[2 * node.number + 1]);
}

void MaxTree::add(Node node, Run run, Bytes bytes) {
  if (node.apart(run)) return;
  if (node.inside(run)) {
    largest_[node.number] += bytes;
    added_[node.number] += bytes;
    return;
  }
  add(node.left(), run, bytes);
  add(node.right(), run, bytes);
  largest_[node.number] = std::max(largest_[2 * node.number], largest_[2 * node.number + 1]) + added_[node.number];
}

Bytes MaxTree::max(Node node, Run run) const {
  if (node.apart(run)) return 0;
  if (node.inside(run)) return largest_[node.number];
  return std::max(max(node.left(), run), max(node.right(), run)) + added_[node.number];
}

std::size_t MaxTree::first_at_least(Node node, std::size_t begin, Bytes least) const {
  if (node.run.end <= begin || largest_[node.number] < least) return size_;
  if (node.is_leaf()) return node.run.begin;
  const Bytes below = least - added_[node.number];
  const std::size_t found = first_at_least(node.left(), begin, below);
  return found != size_ ? found : first_at_least(node.right(), begin, below);
}

}  // namespace memplan
