// Valley search: is there a plan within a capacity? Exact: it ends with a plan, or with the proof that there is none,
// unless its effort runs out first.
//
// Words. An *item* is a buffer. A *section* is a moment between a birth and the next death (section_lives.hpp). The
// *base* of an item without a place is the lowest offset that it may have. The *floor* of a section is the lowest base
// of its items. Its *slack* is the capacity minus its floor and the bytes of the items that are not yet placed there:
// the bytes that may still stay unused (floors.hpp). A *valley* is a row of sections with the same floor, between
// sections with higher floors (valleys.hpp).
//
// A plan is *pushed down* if every buffer lies at 0, or where a buffer that conflicts with it ends (rounded up to its
// alignment). If there is a plan within the capacity, there is a pushed-down plan within it. So the search tries only
// pushed-down plans. It builds them from the bottom up, in a tree of states:
//
//   - It takes the most constrained section t of all valleys. Let f be the floor of t.
//   - For each item at t with base f, one child places this item at f. All sections of the item have the floor f, so no
//     later item can lie below it. Of identical items, one is tried.
//   - One more child places no item at f in t. Then the lowest item at t has a base above f, or it lies on an item y
//     that does not cover t. So the floor of t rises to the lowest of
//       - the bases above f of items that cover t,
//       - base + size of each item y that begins in the valley, and is alive together with an item at t of base f,
//       - the floor of the section left of the valley, if an item crosses the left end of the valley.
//
// A state is dead if the slack of a section is negative. Before the search enters a child, it applies each child once
// and undoes it again, to see which ones are dead at once. It drops these. It orders the others by how much slack each
// one uses up, as a share of the slack there, the least first; the child that places no item is last. The search
// remembers refuted states: states that it has searched to their end without a plan. If the items that are not placed
// fall apart into groups with no common section, it searches these parts one after another. If a part fails, the
// finished parts are not searched again.
//
// If the search is very deep, it drops the oldest half of the children that are left to try, to save memory. Then it
// can no longer prove that there is no plan.
//
// A run is one depth-first search of limited length. It chooses sections and orders children by scores. All runs but
// the first multiply these scores by random factors, so that each run tries another part of the tree. The seed and the
// number of the run determine the factors.
//
// Complexity: exponential; the cost of a node is that of the changes by its children (floors.hpp, valleys.hpp).
// Guarantee: exact, for items without shapes and without conflicts beyond lifetimes.
// Source: memplan. Bottom-left justified plans: Baker, Coffman and Rivest 1980. Sections and their propagation:
// MiniMalloc (Moffitt 2023). Restarts: Luby, Sinclair and Zuckerman 1993.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/chance.hpp"
#include "search/search.hpp"
#include "search/valley/floors.hpp"
#include "search/valley/refutations.hpp"
#include "search/valley/valleys.hpp"

namespace memplan {

// Switches for techniques of the search. It is complete without any of them.
struct Inferences {
  bool probe = true;   // each child is applied and undone before one is entered
  bool waste = true;   // probed children are ordered by the slack that they use up
  bool refute = true;  // refuted states are remembered
  bool split = true;   // parts without a common section are searched one by one
  bool twins = true;   // of identical items, one is tried
  bool vary = true;    // runs differ, by random factors in the branching order
  bool weigh = true;   // sections at which many states died are branched on earlier
  bool stacks = true;  // if every section is full, the stack search runs first (squeeze.hpp)
};

class ValleySearch {
 public:
  ValleySearch(const Sections& sections, std::uint64_t seed, const Deadline& deadline, Inferences use = {});

  // One run. It ends with a plan, with a proof that there is none, or undecided at one of the limits. If the deadline
  // throws, do not use this search again.
  Decision run(Bytes capacity, std::int64_t number, const RunLimits& limits);

  // Per item, after `found`.
  std::span<const Bytes> offsets() const { return offset_; }

  std::int64_t work() const { return floors_.work(); }
  std::int64_t nodes() const { return nodes_; }

 private:
  struct Child {
    Index item;    // kNone: no item lies at the floor of the section
    Bytes height;  // if item is kNone: the new floor
    double order;  // the slack that it uses up, as shares; children with less are entered first
  };
  struct Place {  // a point of the search, for backtracking
    Floors::Mark floors;
    std::size_t items;
    StatePrint state, outside;
  };
  // A level of the depth-first search: the children of a state that are left to try, or the parts that are left to
  // search.
  struct Frame {
    bool parts;
    Index begin, end;   // sections of the part
    Index section;      // the section that is branched on
    std::size_t first;  // the first child in children_, or the first part in parts_
    std::size_t next;   // the next child in children_
    Place place;
    StatePrint state;    // of the part
    std::int64_t nodes;  // the number of nodes when the state was entered
  };
  struct Part {
    Index begin, end;
    StatePrint state;
  };
  enum class Step { enter, next_child, failed, solved };

  bool start(Bytes capacity, std::int64_t number);
  Step enter();
  Step next_child();
  Step failed();
  Step solved();
  Step apply(const Child& child, Index section);
  Step split(Index item);

  void list_children(const Valley& valley);
  void probe_children(std::size_t first, Index section);
  bool attempt(const Child& child, Index section) {
    const bool alive = child.item == kNone ? floors_.rule_out(section, child.height) : floors_.place(child.item);
    if (!alive) most_deaths_ = std::max(most_deaths_, ++deaths_[floors_.dead_at()]);
    return alive;
  }
  // A factor on the number of choices at a section. It is small if many states died there. The section with the fewest
  // weighted choices is branched on first.
  double weight(Index section) const {
    constexpr double kMostDeaths = 100;
    const double share = deaths_[section] / most_deaths_;
    return use_.weigh ? 1 / (1 + kMostDeaths * share) : 1;
  }
  bool is_refuted(const StatePrint& state) const;
  void refute(const StatePrint& state, std::int64_t nodes);
  Bytes height_of(const Child& child) const { return child.item == kNone ? child.height : floors_.base(child.item); }
  bool sooner(const Child& a, const Child& b) const;
  Place here() const { return {floors_.mark(), placed_.size(), state_, outside_}; }
  void back_to(const Place& place);
  double noise() { return vary_ ? 1 + kNoise * (2 * chance_.share() - 1) : 1; }

  void forget();

  static constexpr double kNoise = 0.3;
  static constexpr std::size_t kMostFrames = 1 << 15;

  const Sections& sections_;
  const Deadline* deadline_ = nullptr;  // of the current run
  const Inferences use_;
  const std::uint64_t seed_;
  Floors floors_;
  Valleys valleys_;
  Refutations refutations_;
  RefutedFloors refuted_floors_;  // of short parts
  Chance chance_;
  Bytes capacity_ = 0;
  bool vary_ = false;
  bool forgot_ = false;         // whether children were dropped
  std::vector<double> deaths_;  // per section: dead states, in all runs
  double most_deaths_ = 100;    // of any section; at least 100, since few deaths tell little
  std::vector<double> rank_;    // per item: breaks ties between children, the highest first
  std::vector<Bytes> offset_;
  std::vector<Index> placed_;
  std::vector<Frame> frames_;
  std::vector<Child> children_;
  std::vector<Part> parts_;
  Index begin_ = 0, end_ = 0;   // sections of the current part
  StatePrint state_, outside_;  // of all items without a place, and of such items outside of the current part
  std::int64_t nodes_ = 0;
};

}  // namespace memplan
