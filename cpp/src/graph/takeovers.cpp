#include "graph/takeovers.hpp"

#include <algorithm>
#include <bit>

namespace memplan {

namespace {

// Who has used each byte since it was last written, its writer first: a tree over the bytes, in which an op is noted at
// the highest nodes that it covers.
class Users {
 public:
  explicit Users(const std::vector<Use>& uses) {
    for (const Use& use : uses) bounds_.insert(bounds_.end(), {use.begin, use.end});
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
    leaves_ = std::bit_ceil(std::max<std::size_t>(bounds_.size(), 1));
    nodes_.resize(2 * leaves_);
  }

  // Notes the use; a writer takes the bytes over and waits for all that used them before.
  void note(const Use& use, std::vector<Index>& waits) {
    if (use.begin < use.end) note(1, 0, leaves_, {rank(use.begin), rank(use.end), use.op, use.writes, waits});
  }

 private:
  struct Node {
    std::vector<Index> ops = {};  // that use all bytes of the node
    bool more_below = false;
  };

  struct Noted {
    std::size_t begin, end;
    Index op;
    bool writes;
    std::vector<Index>& waits;
  };

  std::size_t rank(Bytes bound) const {
    return at(std::lower_bound(bounds_.begin(), bounds_.end(), bound) - bounds_.begin());
  }

  static void add(std::vector<Index>& ops, Index op) {
    if (ops.empty() || ops.back() != op) ops.push_back(op);
  }

  void note(std::size_t node, std::size_t begin, std::size_t end, const Noted& use) {
    if (use.begin <= begin && end <= use.end) {
      if (use.writes) take_over(node, use);
      return add(nodes_[node].ops, use.op);
    }
    if (use.writes) push_down(node);
    nodes_[node].more_below = true;
    const std::size_t middle = begin + (end - begin) / 2;
    if (use.begin < middle) note(2 * node, begin, middle, use);
    if (use.end > middle) note(2 * node + 1, middle, end, use);
  }

  void take_over(std::size_t node, const Noted& use) {
    Node& taken = nodes_[node];
    for (const Index op : taken.ops)
      if (op != use.op) use.waits.push_back(op);
    taken.ops.clear();
    if (!taken.more_below) return;
    taken.more_below = false;
    take_over(2 * node, use);
    take_over(2 * node + 1, use);
  }

  // What used all bytes of a node used those of its halves, of which one is written now.
  void push_down(std::size_t node) {
    for (const std::size_t half : {2 * node, 2 * node + 1})
      for (const Index op : nodes_[node].ops) add(nodes_[half].ops, op);
    nodes_[node].ops.clear();
  }

  std::vector<Bytes> bounds_;
  std::size_t leaves_;
  std::vector<Node> nodes_;  // the root is 1, the halves of i are 2 i and 2 i + 1
};

}  // namespace

std::vector<std::vector<Index>> takeovers_of(std::span<const std::vector<Use>> regions, Index ops) {
  std::vector<std::vector<Index>> taken(static_cast<std::size_t>(ops));
  for (const std::vector<Use>& uses : regions) {
    if (std::none_of(uses.begin(), uses.end(), [](const Use& use) { return use.writes; })) continue;
    Users users(uses);
    for (const Use& use : uses) users.note(use, taken[at(use.op)]);
  }
  for (std::vector<Index>& from : taken) {
    std::sort(from.begin(), from.end());
    from.erase(std::unique(from.begin(), from.end()), from.end());
  }
  return taken;
}

}  // namespace memplan
