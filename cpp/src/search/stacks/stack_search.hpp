// Stack search: is there a plan within a capacity, if every section is full or nearly so? An *item* is a buffer. A
// *section* is a moment between a birth and the next death (section_lives.hpp).
//
//     section  s   s+1      No byte is free in either section. The items a and b stay, at the same offsets. So the
//            ┌───┬───┐      items that are born (f) take exactly the bytes of the items that die (d, e).
//            │ a │ a │
//            │ d │   │      These bytes are one or more ranges between staying items. In each range, the dying items
//            │ e │ f │      are neighbours, and the dying and the born items have equally many bytes.
//            │ b │ b │
//            └───┴───┘
//
// Suppose that no proper subset of the dying items has as many bytes as a subset of the born items. Then there is one
// range, and the search need not branch. A stack tree (a PQ-tree) keeps all orders in which d and e are neighbours.
//
// Otherwise, the search branches over all ways to divide the dying and the born items into groups of equal sums (a
// subset-sum problem). It is depth first, and tries small groups first. After the last section, any order of the tree
// is a plan of this section. From a section to the next, born items take the place of dying ones. The search undoes
// these exchanges, from the last to the first. This gives the order of the items in each section, and so all offsets.
//
// If a section has free bytes, they are split into *holes*: items of `step` bytes each. A hole may stay, or die in a
// group. If the items born in a group have fewer bytes than the items that die there, holes are born too.
//
// A run has a limited length. Every second run goes from the last section to the first. All runs but the first two try
// the groups in a random order, in which small groups tend to come first. The seed and the number of the run determine
// this order.
//
// Complexity: O(items · width) for `width` items alive at once, if each section has one way to divide the items;
// otherwise exponential in the number of ways. Guarantee: if all ways are tried, it ends with a plan, or with the proof
// that there is none.
// Source: memplan, on the trees of Booth and Lueker 1976.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/chance.hpp"
#include "memplan/problem.hpp"
#include "problem/sections.hpp"
#include "search/search.hpp"
#include "search/stacks/stack_tree.hpp"

namespace memplan {

class StackSearch {
 public:
  static constexpr Index kMostHoles = 3;  // in a section

  // Whether no section has more than `most_holes` holes, and items are aligned in any order of the stack. All sizes
  // have to be multiples of the step. O(items).
  static bool serves(const Sections& sections, Bytes capacity, Bytes step, Index most_holes = kMostHoles);

  StackSearch(const Sections& sections, Bytes step, std::uint64_t seed, bool vary);

  // One run. `serves` has to be true for the capacity.
  Decision run(Bytes capacity, std::int64_t number, RunLimits limits);

  // Per item, after `found`.
  std::span<const Bytes> offsets() const { return offset_; }

  std::int64_t work() const { return work_; }

 private:
  using Items = std::vector<Index>;
  // Dying items, and the born items that take their bytes. Each group has the first dying item that is left. If only
  // holes are left to die, each group has the first born item.
  struct Group {
    std::uint32_t out, in;  // bit masks over the items that are left in out_ and in_
    Bytes holes;            // how many holes are born in the group
    double order;           // groups with less are tried first
  };
  // A level of the depth-first search: a state of the search, and the groups that are left to try there.
  struct Frame {
    StackTree tree;
    Index section;  // the section that is entered
    Items out, in;  // out_ and in_
    std::vector<Group> ways;
    std::size_t next;  // in ways
    std::size_t done;  // the number of exchanges in done_
  };

  void start(Bytes capacity, std::int64_t number);
  void enter_section();
  bool is_entered() const;
  bool is_hole(Index item) const { return item >= sections_.items(); }
  Bytes size_of(Index item) const { return is_hole(item) ? step_ : sections_.size[at(item)]; }
  Bytes sum_of(std::span<const Index> items, std::uint32_t chosen) const;
  Bytes holes_at(Index section) const { return (capacity_ - sections_.load[at(section)]) / step_; }
  Items holes() const;
  Bytes room() const;
  void add_holes(Bytes count, Items& to) const;
  bool enter(const Group& group);
  std::vector<Group> skip();
  std::vector<std::uint32_t> twins_before() const;
  Group next_way();
  std::vector<Group> groups();
  void read_back(const Deadline& deadline);

  const Sections& sections_;
  const Bytes step_;
  const std::uint64_t seed_;
  std::vector<Items> born_, dying_;  // per section: the items that begin there, and the items that end there
  StackExchange exchange_;
  Chance chance_;
  Bytes capacity_ = 0;
  const bool may_vary_;
  bool backward_ = false, vary_ = false;
  bool skipped_ = false;  // some ways to divide were not tried, so there is no proof
  StackTree tree_;
  Index section_ = 0;  // the number of sections entered, from the first or from the last
  Items out_, in_;     // left to exchange in this section: dying items and then holes, and born items
  std::vector<Exchange> done_;
  std::vector<Frame> frames_;
  std::size_t kept_ = 0;  // nodes in the trees of frames_
  // Subset sums of in_, with the bit masks of the subsets; ascending.
  std::vector<std::pair<Bytes, std::uint32_t>> sums_;
  std::vector<Bytes> offset_;
  std::int64_t work_ = 0;
};

}  // namespace memplan
