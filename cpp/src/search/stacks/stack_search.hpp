// Stack search: is there a plan within a capacity, where every section is full or nearly so?
//
//     section  s   s+1      No byte is free in either section. What stays keeps its place, so what is born fills the
//            ┌───┬───┐      bytes of what dies. These fall apart into ranges between what stays. In each range, the
//            │ a │ a │      buffers that die are neighbours, and have as many bytes as those that are born there.
//            │ d │   │
//            │ e │ f │      If no part of what dies has as many bytes as a part of what is born, there is one range.
//            │ b │ b │      Then nothing has to be tried: a stack tree keeps all orders in which d and e are neighbours.
//            └───┴───┘
//
// If parts have the same bytes, by chance or because several ranges change at once, the search tries each way to divide
// what dies and what is born into groups of the same bytes, small groups first, depth first. At the end any order of the
// last tree is a plan. Read backward, it tells the orders of what was exchanged.
//
// If a few units of bytes are free, each is a hole: an item that may stay, or die in a group, and be born again in any
// group that has bytes left. The search tries these ways too.
//
// A run has a limited length. Every second one goes from the last section to the first. All but the first two draw
// noise. The same seed and the same number of the run give the same search.
//
// Complexity: O(items · width) for `width` items alive at once, if there is one way at each section; exponential in the
// number of ways. Guarantee: exact if all ways are tried: a plan, or the proof that there is none.
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

  // Whether there are so few holes in every section, and whatever lies on whatever is aligned. All sizes are multiples
  // of the step. O(items).
  static bool serves(const Sections& sections, Bytes capacity, Bytes step, Index most_holes = kMostHoles);

  StackSearch(const Sections& sections, Bytes step, std::uint64_t seed, bool vary);

  // One run, at a capacity that it serves.
  Decision run(Bytes capacity, std::int64_t number, RunLimits limits);

  // Per item, after `found`.
  std::span<const Bytes> offsets() const { return offset_; }

  std::int64_t work() const { return work_; }

 private:
  using Items = std::vector<Index>;
  struct Group {  // of the first that is to die, by positions in what is left
    std::uint32_t out, in;
    Bytes holes;  // that are born with them
    double order;
  };
  // What is left to try.
  struct Frame {
    StackTree tree;
    Index section;  // the one that is entered
    Items out, in;  // what is left of those that die, then holes, and of those that are born
    std::vector<Group> ways;
    std::size_t next;
    std::size_t done;  // exchanges
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
  std::vector<Items> born_, dying_;  // per section: those that begin there, and those that end at its end
  StackExchange exchange_;
  Chance chance_;
  Bytes capacity_ = 0;
  const bool may_vary_;
  bool backward_ = false, vary_ = false;
  bool skipped_ = false;  // some ways to divide
  StackTree tree_;
  Index section_ = 0;  // how many have been entered, from either end
  Items out_, in_;
  std::vector<Exchange> done_;
  std::vector<Frame> frames_;
  std::size_t kept_ = 0;  // nodes of their trees
  std::vector<std::pair<Bytes, std::uint32_t>> sums_;
  std::vector<Bytes> offset_;
  std::int64_t work_ = 0;
};

}  // namespace memplan
