// Stack search: is there a plan at the load, where every section is full?
//
//     section  s   s+1      no byte is free in either. What stays keeps its place; so where d lies, something that is
//            ┌───┬───┐      born lies. The bytes that are freed fall apart into ranges, and each is filled again: what
//            │ a │ a │      dies in it lay on one another there and has the bytes of what is born in it.
//            │ d │   │
//            │ e │ f │      Where no part of what dies has the bytes of a part of what is born, there is one range. A
//            │ b │ b │      stack tree keeps all orders in which it is one, exactly, and nothing has to be tried.
//            └───┴───┘
//
// Where parts have the same bytes, as by chance, or because several ranges change in one moment, each way to divide
// what dies and what is born into groups of the same bytes is tried, small groups first, depth first. At the end
// any order of the last tree is a plan: read backward, it says in what order what was exchanged had lain.
//
// A run has a limited length. Every second one goes from the last section to the first. All but the first two draw
// noise. The same seed and the same number of the run give the same search.
//
// Complexity: O(items · width), for so many alive at once, where there is one way at each section; exponential in the
// ways that there are.
// Guarantee: exact where all ways are tried: a plan at the load, or the proof that there is none.
// Source: memplan, on the trees of Booth and Lueker 1976.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "placing/deadline.hpp"
#include "search/chance.hpp"
#include "search/sections.hpp"
#include "search/stack_tree.hpp"

namespace memplan {

class StackSearch {
 public:
  enum class Outcome { found, infeasible, undecided };

  // Whether no byte is free in any section at the load, and whatever lies on whatever is aligned. O(items).
  static bool serves(const Sections& sections);

  StackSearch(const Sections& sections, std::uint64_t seed, bool vary);

  // One run, of so many exchanges at most.
  Outcome run(std::int64_t number, std::int64_t exchanges, const Deadline& deadline);

  // Per item, after `found`.
  std::span<const Bytes> offsets() const { return offset_; }

  std::int64_t work() const { return work_; }

 private:
  using Items = std::vector<Index>;
  struct Group {  // of the first that is to die, by positions in what is left
    std::uint32_t out, in;
    double order;
  };
  // What is left to try.
  struct Frame {
    StackTree tree;
    Index section;  // the one that is entered
    Items out, in;  // what is left of those that die and are born
    std::vector<Group> ways;
    std::size_t next;
    std::size_t done;  // exchanges
  };

  void start(std::int64_t number);
  void enter_section();
  bool enter(const Group& group);
  Group next_way();
  std::vector<Group> groups();
  void read_back(const Deadline& deadline);

  const Sections& sections_;
  const std::uint64_t seed_;
  std::vector<Items> born_, dying_;  // per section: those that begin there, and those that end at its end
  StackExchange exchange_;
  Chance chance_;
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
