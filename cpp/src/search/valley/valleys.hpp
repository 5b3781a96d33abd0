// Valleys: where the search goes on. A run is a longest row of sections with one floor, connected by items without a
// place. A valley is a run whose neighbours are higher.
//
//     floor ▲   ┌──┐                      An item that covers a section of a valley, and has its base on the floor
//           │┌──┘  │       ┌──            there, lies wholly in the valley. So if it is placed there, no later item
//           ││     └─┐  ┌──┘              can lie below it.
//           ││  run  └──┘ valley
//           └┴──────────────▶ section
//
// Each valley keeps its most constrained section: the one with the fewest choices, then with the least slack. A choice
// is an item that may lie there on the floor. That no item lies there is a choice too, if the slack allows it. Of a
// very long valley, it looks at the beginning only: any section would do.
//
// Complexity: O(sections and items of the runs that changed + log S per valley that did) for each question.
#pragma once

#include <algorithm>
#include <vector>

#include "search/valley/floors.hpp"
#include "search/valley/marks.hpp"

namespace memplan {

struct Valley {
  Index begin = 0, end = 0;  // sections
  Index section = kNone;     // the most constrained section
  double choices = 0;        // there
  Bytes slack = 0;           // there
};

class Valleys {
 public:
  Valleys(const Sections& sections, const Floors& floors);

  // From now on, nothing is placed.
  void reset();

  // An item was placed, or taken back.
  void add(Index item);
  void remove(Index item);

  // Anything may have changed in these sections.
  void touch(Index from, Index to) {
    from_ = from < from_ ? from : from_;
    to_ = to > to_ ? to : to_;
  }

  // Whether items still to come hold the sections `section` - 1 and `section` together.
  bool joined(Index section) const { return crossing_[section] > 0; }

  // The valley with the most constrained section in [from, to). No item still to come crosses the ends of this range.
  // Each section's number of choices is multiplied by factor(section).
  template <class Factor>
  const Valley* most_constrained(Index from, Index to, Factor&& factor) {
    refresh(factor);
    return best_in(from, to);
  }

 private:
  template <class Factor>
  void refresh(Factor&& factor);
  template <class Factor>
  void count_choices(Valley& valley, Factor&& factor);
  void find_runs();
  bool is_leaf(Index begin, Index end) const;
  bool same_run(Index a, Index b) const { return floors_.floor(a) == floors_.floor(b) && crossing_[b] > 0; }
  bool better(Index a, Index b) const;
  void set_leaf(Index section, Index value);
  const Valley* best_in(Index from, Index to) const;

  static constexpr Index kWindow = 1024;  // sections

  const Sections& sections_;
  const Floors& floors_;
  std::vector<Index> crossing_;  // per section: items still to come that cover it and the one before
  Marks begins_;                 // where runs begin
  std::vector<Valley> run_;      // by where they begin
  std::vector<Index> difference_;
  std::size_t leaves_ = 1;
  std::vector<Index> best_;  // a tree: the begin of the best valley below each node, or kNone
  Index from_ = 0, to_ = 0;  // sections that may have changed
};

template <class Factor>
void Valleys::count_choices(Valley& valley, Factor&& factor) {
  const Bytes floor = floors_.floor(valley.begin);
  const Index end = std::min(valley.end, valley.begin + kWindow);
  for (Index x = sections_.begins[valley.begin]; x < sections_.begins[end]; ++x) {
    if (floors_.base(x) != floor) continue;
    ++difference_[sections_.first[x]];
    --difference_[std::min(sections_.last[x], end)];
  }
  Index items = 0;
  for (Index s = valley.begin; s < end; ++s) {
    items += difference_[s];
    difference_[s] = 0;
    const Bytes slack = floors_.slack(s);
    const double choices = (items + (slack > 0 ? 1 : 0)) * factor(s);
    if (valley.section != kNone && (choices > valley.choices || (choices == valley.choices && slack >= valley.slack)))
      continue;
    valley.section = s;
    valley.choices = choices;
    valley.slack = slack;
  }
  difference_[end] = 0;
}

template <class Factor>
void Valleys::refresh(Factor&& factor) {
  if (from_ >= to_) return;
  find_runs();
  // The runs in there, and one run on either side, whose neighbours may have changed.
  const Index first = from_ > 0 ? begins_.last_up_to(from_ - 1) : 0;
  const Index last = to_ < sections_.count ? run_[to_].end : sections_.count;
  for (Index s = first; s < last; s = run_[s].end) {
    Valley& run = run_[s];
    const bool leaf = is_leaf(run.begin, run.end);
    if (leaf && run.section == kNone) count_choices(run, factor);
    set_leaf(s, leaf ? s : kNone);
  }
  from_ = sections_.count;
  to_ = 0;
}

}  // namespace memplan
