// What the valley search keeps while it goes down and back up, each against a plain version that starts afresh; and
// repairs in windows.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "check.hpp"
#include "memplan/bounds.hpp"
#include "memplan/plan.hpp"
#include "memplan/verify.hpp"
#include "planners/planners.hpp"
#include "problem/sections.hpp"
#include "search/valley/floors.hpp"
#include "search/valley/marks.hpp"
#include "search/valley/refutations.hpp"
#include "search/valley/valleys.hpp"
#include "search/wheel/window_repair.hpp"

using namespace memplan;

namespace {

std::mt19937_64 generator(11);

Index below(Index limit) { return static_cast<Index>(generator() % static_cast<std::uint64_t>(limit)); }

void marks_are_a_set(Index count) {
  Marks marks;
  for (int again = 0; again < 2; ++again) {
    marks.reset(count);
    std::set<Index> set;
    CHECK(marks.last_up_to(count - 1) == kNone);
    for (int round = 0; round < 400 && count > 0; ++round) {
      const Index i = below(count);
      if (below(5) < 2) {
        marks.set(i);
        set.insert(i);
      } else {
        const Index gone = set.empty() || below(4) == 0 ? i : *set.begin();
        marks.clear(gone);
        set.erase(gone);
      }
      const Index up_to = below(8) == 0 ? count - 1 : below(count);
      const auto after = set.upper_bound(up_to);
      CHECK(marks.last_up_to(up_to) == (after == set.begin() ? kNone : *std::prev(after)));
    }
  }
}

Fingerprint state_of(Index k) {
  Fingerprint state = Fingerprint::of(k, 0);
  return state += Fingerprint::of(k + 1, Bytes{7} * k);
}

void fingerprints_are_of_multisets() {
  const Fingerprint a = Fingerprint::of(3, 64), b = Fingerprint::of(3, 65), c = Fingerprint::of(4, 64);
  CHECK(!(a == b) && !(a == c) && !(b == c));
  Fingerprint one = a, other = b;
  one += b;
  other += a;
  CHECK(one == other);
  other += a;
  CHECK(!(one == other));
  other -= a;
  other -= b;
  CHECK(other == a);
}

void refuted_for_every_lower_capacity() {
  Refutations refutations;
  CHECK(!refutations.contains(state_of(0), 0));
  std::map<Index, Bytes> highest;
  for (int round = 0; round < 3000; ++round) {
    const Index k = below(300);
    const Bytes capacity = below(100);
    refutations.add(state_of(k), capacity);
    CHECK(refutations.contains(state_of(k), capacity));
    highest[k] = std::max(capacity, highest.count(k) > 0 ? highest[k] : 0);
    const Index other = below(400);
    const auto known = highest.find(other);
    CHECK(!refutations.contains(state_of(other), known == highest.end() ? 0 : known->second + 1));
  }
  int kept = 0;
  for (const auto& [k, capacity] : highest) {
    const bool known = refutations.contains(state_of(k), capacity);
    kept += known;
    if (known) CHECK(refutations.contains(state_of(k), capacity / 2));
  }
  CHECK(kept >= 290);  // a bucket that is full lets the oldest go
}

void refutations_outlive_growth() {
  Refutations refutations;
  constexpr Index kMany = 20'000;
  for (Index k = 0; k < kMany; ++k) refutations.add(state_of(k), k);
  int kept = 0;
  for (Index k = 0; k < kMany; ++k) {
    kept += refutations.contains(state_of(k), k);
    CHECK(!refutations.contains(state_of(k), k + 1));
  }
  CHECK(kept > kMany * 9 / 10);
}

Problem random_problem() {
  const std::vector<std::vector<Bytes>> kinds = {{1}, {1}, {4}, {1, 2, 4, 8}, {2, 3}, {8, 12, 64}};
  const std::vector<Bytes>& alignments = kinds[at(below(static_cast<Index>(kinds.size())))];
  const Index buffers = 1 + below(40), steps = 1 + below(50), longest = 1 + below(steps);
  std::vector<Bytes> size, alignment;
  std::vector<Step> first, last;
  for (Index i = 0; i < buffers; ++i) {
    first.push_back(below(steps));
    last.push_back(first.back() + 1 + below(longest));
    size.push_back(below(10) == 0 ? 5 : 1 + below(30));
    alignment.push_back(alignments[at(below(static_cast<Index>(alignments.size())))]);
  }
  return Problem(size, first, last, alignment);
}

// What was placed and ruled out, from which all else follows.
struct Plain {
  struct Rule {
    Index section;
    Bytes height;
  };
  std::map<Index, Bytes> placed;
  std::vector<Rule> ruled_out;
};

bool covers(const Sections& sections, Index x, Index s) { return sections.first[x] <= s && s < sections.last[x]; }

struct Values {
  Values(const Sections& sections, const Plain& plain, Bytes capacity) {
    for (Index x = 0; x < sections.items(); ++x) base.push_back(base_of(sections, plain, x));
    for (Index s = 0; s < sections.count; ++s) {
      Bytes lowest = Floors::kPlaced, to_come = 0, most_padding = 0;
      for (Index x = 0; x < sections.items(); ++x) {
        if (!covers(sections, x, s)) continue;
        lowest = std::min(lowest, base[x]);
        most_padding = std::max(most_padding, sections.padding[x]);
        if (base[x] != Floors::kPlaced) to_come += sections.size[x];
      }
      floor.push_back(lowest);
      slack.push_back(lowest == Floors::kPlaced ? 0 : capacity - lowest - to_come + most_padding);
    }
  }

  static Bytes base_of(const Sections& sections, const Plain& plain, Index x) {
    if (plain.placed.count(x) > 0) return Floors::kPlaced;
    Bytes height = 0;
    for (const auto& [y, offset] : plain.placed)
      if (sections.first[y] < sections.last[x] && sections.first[x] < sections.last[y])
        height = std::max(height, offset + sections.size[y]);
    for (const auto& [section, least] : plain.ruled_out)
      if (covers(sections, x, section)) height = std::max(height, least);
    return align_up(height, sections.alignment[x]);
  }

  std::vector<Bytes> base, floor, slack;  // no slack where nothing is to come
};

// A walk of the search without its choices: places what may be placed, rules out, goes back.
class Walk {
 public:
  Walk(const Sections& sections, Bytes capacity)
      : sections_(sections), capacity_(capacity), floors_(sections, Deadline()), valleys_(sections, floors_) {
    for (int again = 0; again < 2; ++again) start();
  }

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      const Index what = below(10);
      if (what < 6) {
        place();
      } else if (what < 8) {
        rule_out();
      } else {
        go_back();
      }
    }
    while (!undone_.empty()) go_back();
  }

 private:
  struct Before {
    Floors::Mark mark;
    Plain plain;
  };

  void start() {
    plain_ = {};
    undone_.clear();
    CHECK(floors_.reset(capacity_));
    valleys_.reset();
    now_ = Values(sections_, plain_, capacity_);
    compare();
    if (!place()) return;  // what a run leaves does not matter to the next one
    CHECK(!floors_.reset(sections_.highest_load() - 1));
    floors_.reset(capacity_);
    valleys_.reset();
    plain_ = {};
    undone_.clear();
    now_ = Values(sections_, plain_, capacity_);
  }

  // What has its base on the floor all along: only that may be placed.
  bool may_be_placed(Index x) const {
    for (Index s = sections_.first[x]; s < sections_.last[x]; ++s)
      if (now_->floor[s] != now_->base[x]) return false;
    return now_->base[x] != Floors::kPlaced;
  }

  bool place() {
    std::vector<Index> items;
    for (Index x = 0; x < sections_.items(); ++x)
      if (may_be_placed(x)) items.push_back(x);
    CHECK(items.empty() == (plain_.placed.size() == sections_.buffer.size()));
    if (items.empty()) return false;
    const Index x = items[at(below(static_cast<Index>(items.size())))];
    const Bytes top = now_->base[x] + sections_.size[x] - sections_.padding[x];
    const Before before{floors_.mark(), plain_};
    plain_.placed[x] = now_->base[x];
    return judge(before, floors_.place(x), top <= capacity_, x);
  }

  void rule_out() {
    const Index s = below(sections_.count);
    if (now_->floor[s] == Floors::kPlaced) return;
    const Bytes height = now_->floor[s] + 1 + below(12);
    const Before before{floors_.mark(), plain_};
    plain_.ruled_out.push_back({s, height});
    judge(before, floors_.rule_out(s, height), true, kNone);
  }

  bool judge(const Before& before, bool alive, bool below_capacity, Index item) {
    const Values then = *std::exchange(now_, Values(sections_, plain_, capacity_));
    const auto lost = [](Bytes slack) { return slack < 0; };
    CHECK(alive == (below_capacity && std::none_of(now_->slack.begin(), now_->slack.end(), lost)));
    valleys_.touch(floors_.changed_from(), floors_.changed_to());
    if (!alive) {  // which may have ended at any point
      undo(before);
      return false;
    }
    changes_are_told(then);
    items_are_told(before.mark, then);
    waste_is_a_share_of_slack(then);
    undone_.push_back(before);
    if (item != kNone) valleys_.add(item);
    compare();
    return true;
  }

  void go_back() {
    if (undone_.empty()) return;
    const std::size_t depth = at(below(static_cast<Index>(undone_.size())));
    const Before before = undone_[depth];
    undone_.resize(depth);
    for (const auto& [x, offset] : plain_.placed)
      if (before.plain.placed.count(x) == 0) valleys_.remove(x);
    const Values then = *now_;
    undo(before);
    changes_are_told(then);
  }

  void undo(const Before& before) {
    plain_ = before.plain;
    now_ = Values(sections_, plain_, capacity_);
    floors_.undo(before.mark);
    valleys_.touch(floors_.changed_from(), floors_.changed_to());
    compare();
  }

  void changes_are_told(const Values& then) const {
    for (Index x = 0; x < sections_.items(); ++x) {
      if (now_->base[x] == then.base[x]) continue;
      CHECK(floors_.changed_from() <= sections_.first[x] && sections_.last[x] <= floors_.changed_to());
    }
  }

  void items_are_told(const Floors::Mark& mark, const Values& then) const {
    std::size_t changed = 0;
    for (Index x = 0; x < sections_.items(); ++x) changed += now_->base[x] != then.base[x];
    CHECK(floors_.items_since(mark).size() == changed);
    for (const auto& [x, base] : floors_.items_since(mark))
      CHECK(base == then.base[x] && floors_.base(x) != base && floors_.is_placed(x) == (plain_.placed.count(x) > 0));
  }

  void waste_is_a_share_of_slack(const Values& then) const {
    double waste = 0;
    for (Index s = 0; s < sections_.count; ++s)
      if (now_->floor[s] != Floors::kPlaced)
        waste += static_cast<double>(then.slack[s] - now_->slack[s]) / static_cast<double>(then.slack[s] + 1);
    CHECK(std::abs(floors_.waste() - waste) < 1e-9);
  }

  void compare() {
    for (Index x = 0; x < sections_.items(); ++x) CHECK(floors_.base(x) == now_->base[x]);
    for (Index s = 0; s < sections_.count; ++s) {
      CHECK(floors_.floor(s) == now_->floor[s]);
      if (now_->floor[s] != Floors::kPlaced) CHECK(floors_.slack(s) == now_->slack[s]);
    }
    compare_valleys();
  }

  bool joined(Index s) const {
    for (Index x = 0; x < sections_.items(); ++x)
      if (now_->base[x] != Floors::kPlaced && covers(sections_, x, s - 1) && covers(sections_, x, s)) return true;
    return false;
  }

  // Of the part between two sections that nothing to come joins to their neighbours.
  void compare_valleys() {
    std::vector<Index> ends = {0};
    for (Index s = 1; s < sections_.count; ++s) {
      CHECK(valleys_.joined(s) == joined(s));
      if (!joined(s)) ends.push_back(s);
    }
    ends.push_back(sections_.count);
    const Index a = below(static_cast<Index>(ends.size())), b = below(static_cast<Index>(ends.size()));
    compare_best(0, sections_.count);
    if (a != b) compare_best(ends[at(std::min(a, b))], ends[at(std::max(a, b))]);
  }

  void compare_best(Index from, Index to) {
    const std::optional<Valley> expected = best_valley(from, to);
    const Valley* found = valleys_.most_constrained(from, to, [](Index) { return 1.0; });
    CHECK((found != nullptr) == expected.has_value());
    if (found == nullptr || !expected) return;
    CHECK(found->begin == expected->begin && found->end == expected->end);
    CHECK(found->section == expected->section && found->slack == expected->slack);
    CHECK(found->choices == expected->choices);
  }

  std::optional<Valley> best_valley(Index from, Index to) const {
    std::optional<Valley> best;
    for (Index begin = from, end = from; begin < to; begin = end) {
      const Bytes floor = now_->floor[begin];
      for (end = begin + 1; end < to && joined(end) && now_->floor[end] == floor;) ++end;
      if (floor == Floors::kPlaced) continue;
      if (begin > from && joined(begin) && now_->floor[begin - 1] < floor) continue;
      if (end < to && joined(end) && now_->floor[end] < floor) continue;
      for (Index s = begin; s < end; ++s) {
        const Valley valley = {begin, end, s, choices(s), now_->slack[s]};
        if (!best || std::pair(valley.choices, valley.slack) < std::pair(best->choices, best->slack)) best = valley;
      }
    }
    return best;
  }

  double choices(Index s) const {
    int count = now_->slack[s] > 0 ? 1 : 0;
    for (Index x = 0; x < sections_.items(); ++x) count += covers(sections_, x, s) && now_->base[x] == now_->floor[s];
    return count;
  }

  const Sections& sections_;
  const Bytes capacity_;
  Floors floors_;
  Valleys valleys_;
  Plain plain_;
  std::vector<Before> undone_;
  std::optional<Values> now_;
};

void walk() {
  const Problem problem = random_problem();
  const Sections sections(problem, Deadline());
  const Bytes load = sections.highest_load();
  Walk(sections, load + below(3) * below(static_cast<Index>(load + 1))).run(120);
}

// As many sections as fill a word of marks, the last of which changes.
void a_full_word_of_sections() {
  constexpr Index kSteps = 64;
  std::vector<Bytes> size(kSteps, 1);
  std::vector<Step> first, last;
  for (Index i = 0; i < kSteps; ++i) {
    first.push_back(i);
    last.push_back(std::min(kSteps, i + 2));
  }
  for (const Step step : {0, 63}) {  // so that the first step and the last are sections of their own
    size.push_back(2);
    first.push_back(step);
    last.push_back(step + 1);
  }
  const Sections sections(Problem(size, first, last, std::vector<Bytes>(size.size(), 1)), Deadline());
  CHECK(sections.count == kSteps);
  Walk(sections, 6).run(300);
}

// A buffer per step, most of which die soon.
Problem narrow_problem(Index count) {
  std::vector<Bytes> size, alignment;
  std::vector<Step> first, last;
  for (Index i = 0; i < count; ++i) {
    size.push_back(1 + below(60));
    first.push_back(i);
    last.push_back(i + 2 + below(below(50) == 0 ? 40 : 6));
    alignment.push_back(Bytes{1} << below(3));
  }
  if (below(4) == 0) {  // which leaves no room small
    const Step from = below(count / 2);
    size.push_back(1 + below(20));
    first.push_back(from);
    last.push_back(from + 1 + below(count));
    alignment.push_back(1);
  }
  return Problem(size, first, last, alignment);
}

// Whatever comes of it, it is a plan whose peak is no higher; and true says that the target is met.
bool is_repaired(const Problem& problem, Bytes target, std::int64_t work) {
  const std::vector<Bytes> before = first_fit(problem, {}).offsets;
  std::vector<Bytes> offsets = before;
  const std::int64_t given = work;
  const bool done = repair_in_windows(problem, offsets, target, 5, work, Deadline());
  CHECK(work <= given);
  CHECK(verify(problem, offsets).empty());
  CHECK(peak_of(problem, offsets) <= peak_of(problem, before));
  CHECK(done == (peak_of(problem, offsets) <= target));
  if (given == 0) CHECK(offsets == before);
  return done && offsets != before;
}

void windows_are_repaired() {
  int repaired = 0;
  for (int problems = 0; problems < 30; ++problems) {
    const Problem problem = narrow_problem(3000);
    is_repaired(problem, load(problem), 0);
    repaired += is_repaired(problem, load(problem) + below(8), 3'000'000) ? 1 : 0;
    is_repaired(problem, load(problem) / 2, 1'000'000);  // above it nearly everywhere
    is_repaired(problem, kMaxBytes, 1'000'000);
  }
  CHECK(repaired >= 10);
}

// Where the deadline passes on the way, the plan stays one.
void a_repair_may_be_cut_short() {
  const Problem problem = narrow_problem(20'000);
  for (int looks = 1; looks < 40; looks += 3) {
    PlanOptions options;
    const auto begin = std::chrono::steady_clock::now();
    options.time_limit = looks * 1e-4;
    options.start = begin;
    std::vector<Bytes> offsets = first_fit(problem, {}).offsets;
    std::int64_t work = 100'000'000;
    try {
      repair_in_windows(problem, offsets, load(problem), 5, work, Deadline(options));
    } catch (const EndedError&) {
    }
    CHECK(verify(problem, offsets).empty());
  }
}

}  // namespace

int main() {
  for (Index count : {0, 1, 2, 63, 64, 65, 300, 4095, 4096, 4097, 9000}) marks_are_a_set(count);
  fingerprints_are_of_multisets();
  refuted_for_every_lower_capacity();
  refutations_outlive_growth();
  for (int problems = 0; problems < 300; ++problems) walk();
  a_full_word_of_sections();
  windows_are_repaired();
  a_repair_may_be_cut_short();
  return check::finish();
}
