// Valley search: is there a plan within a capacity? Exact: it ends with a plan, or with the proof that there is none,
// unless its effort runs out first.
//
// There is a plan within the capacity if and only if there is one that cannot be pushed down: every buffer lies at 0,
// or where another one that conflicts with it ends (rounded up to its alignment). Those are searched from the bottom
// up:
//
//   - take the most constrained section t of all valleys; its floor is f
//   - one child for each item that may lie at f there: it is placed. Nothing can come below it any more, for the floors
//     of all that it covers are f. Of identical items one is tried.
//   - one more child: nothing lies at f there. Then the lowest item at t has a base above f, or it lies on an item that
//     does not cover t. So the floor of t rises to the least of
//       - the bases above f of items that cover t,
//       - base + size of items that begin in the valley and meet an item that might lie at f,
//       - the floor of the lower neighbour on the left, if an item crosses that end.
//
// A state is dead if slack would be negative (floors.hpp). The search tries children before it enters one: it drops the
// dead ones, and orders the others by the slack that they waste. It remembers states that it has searched to their end.
// If the items still to come fall apart in time, it searches the parts one after the other. When a part fails, it does
// not search those again that are done.
//
// A very deep search forgets the oldest half of what is left to try, so that its memory stays small. It proves nothing
// then.
//
// A run is one depth-first search of limited length. Every run but the first draws noise, so that it goes elsewhere.
// The same seed and the same number of the run give the same search.
//
// Complexity: exponential; a node costs what its children change (floors.hpp, valleys.hpp).
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

// What the search may use; it is complete without any of them.
struct Inferences {
  bool probe = true;   // children are tried before they are entered
  bool waste = true;   // and ordered by the slack they waste
  bool refute = true;  // refuted states are remembered
  bool split = true;   // parts that fall apart are searched on their own
  bool twins = true;   // one of identical items is tried
  bool vary = true;    // runs differ
  bool weigh = true;   // sections where the search died are branched on first
  bool stacks = true;  // where every section is full, the stack search goes first (squeeze.hpp)
};

class ValleySearch {
 public:
  ValleySearch(const Sections& sections, std::uint64_t seed, const Deadline& deadline, Inferences use = {});

  // One run: a plan, a proof that there is none, or undecided at one of the limits. Where the deadline throws, the
  // search is of no more use.
  Decision run(Bytes capacity, std::int64_t number, const RunLimits& limits);

  // Per item, after `found`.
  std::span<const Bytes> offsets() const { return offset_; }

  std::int64_t work() const { return floors_.work(); }
  std::int64_t nodes() const { return nodes_; }

 private:
  struct Child {
    Index item;    // kNone: nothing lies at the floor of the section
    Bytes height;  // then: it rises to there
    double order;  // the lower the sooner
  };
  struct Place {  // in the state, to come back to
    Floors::Mark floors;
    std::size_t items;
    StatePrint state, outside;
  };
  // What is left to try at a node; or, where what is to come fell apart, the parts that are left to search.
  struct Frame {
    bool parts;
    Index begin, end;   // sections of the part
    Index section;      // branched on
    std::size_t first;  // in children_ or parts_
    std::size_t next;   // in children_
    Place place;
    StatePrint state;    // of the part
    std::int64_t nodes;  // until it was entered
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
  // What a section's choices count: those where the search dies most are looked at while there is much to choose.
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
  const Deadline* deadline_ = nullptr;  // of the run in progress
  const Inferences use_;
  const std::uint64_t seed_;
  Floors floors_;
  Valleys valleys_;
  Refutations refutations_;
  RefutedFloors refuted_floors_;  // of short parts
  Chance chance_;
  Bytes capacity_ = 0;
  bool vary_ = false;
  bool forgot_ = false;         // something that was left to try
  std::vector<double> deaths_;  // per section, in all runs
  double most_deaths_ = 100;    // few deaths tell little
  std::vector<double> rank_;    // per item, what ties are broken by: the higher the sooner
  std::vector<Bytes> offset_;
  std::vector<Index> placed_;
  std::vector<Frame> frames_;
  std::vector<Child> children_;
  std::vector<Part> parts_;
  Index begin_ = 0, end_ = 0;   // the part that is searched
  StatePrint state_, outside_;  // of all that is still to come, and of what is outside this part
  std::int64_t nodes_ = 0;
};

}  // namespace memplan
