// Stack tree: every order in which buffers may lie on one another, as a PQ-tree.
//
//          any            any     its children lie in any order
//        ┌──┼───┐         either  its children lie in this order, or in the reverse of it
//        a either d
//          ┌┼┐            stands for a b c e d, a e c b d, d a b c e, b c e d a, …
//          b c e
//
// If dying buffers leave exactly the bytes of the buffers that are born, they must lie on one another. The tree keeps
// the orders in which they are neighbours. Then it exchanges them for the born buffers, in any order.
//
// Complexity: O(buffers in the tree) for an exchange.
// Guarantee: the tree stands for all orders that are possible, and for no other.
// Source: Booth and Lueker 1976, whose trees take time for the exchanged buffers alone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

struct StackNode {
  static constexpr Index kAny = -1, kEither = -2;

  Index item;   // of a leaf; or what kind of node it is
  Index nodes;  // in its subtree, which follows it: parents come before their children
};
using StackTree = std::vector<StackNode>;

// The items in any order.
StackTree any_order(std::span<const Index> items);

// Any one of the orders, from the bottom up.
std::vector<Index> order_of(const StackTree& tree);

// An exchange, noted so that it can be undone in a known stack.
struct Exchange {
  std::vector<Index> in;   // neighbours in the stack
  std::vector<Index> out;  // what lay in their place, in an order that was possible
  Index beside = kNone;    // `out` is reversed unless this item lies on the side `above` tells; kNone: never reversed
  bool above = false;      // it lies above them, or below

  void undo(std::vector<Index>& stack) const;  // O(stack)
};

class StackExchange {
 public:
  explicit StackExchange(Index items) : is_out_(static_cast<std::size_t>(items), false) {}

  // Puts `in` where `out` is; neither is empty. False if the items of `out` are neighbours in no order; then the tree
  // is as it was.
  bool exchange(StackTree& tree, std::span<const Index> out, std::span<const Index> in, Exchange& done);

 private:
  using Piece = std::vector<Index>;  // nodes of the tree, in any order
  using Line = std::vector<Piece>;   // in this order
  enum class Filled { none, partly, all };

  void count();
  Filled filled(Index node) const;
  Index root_of(std::size_t count);
  bool rebuild(Index root, std::span<const Index> in, Exchange& done);
  bool part_any(Index root, Piece& apart, Line& below, Line& above, std::vector<Index>& out) const;
  bool part_either(Index root, Line& below, Line& above, std::vector<Index>& out) const;
  bool line_up(Index node, Line& stay, std::vector<Index>& out) const;
  std::vector<Index> children(Index node) const;
  Index item_of(const Piece& piece) const;
  void add_items(Index node, std::vector<Index>& into) const;
  void copy(const Piece& piece);
  void join(std::size_t begin, std::size_t children, Index kind);

  std::vector<bool> is_out_;
  const StackTree* tree_ = nullptr;   // that is read
  StackTree next_;                    // and that is written
  std::vector<Index> outs_, leaves_;  // per node, and one more: leaves before it that go out, and all
  std::vector<Index> above_;          // the nodes above the lowest node that holds all that goes out
};

}  // namespace memplan
