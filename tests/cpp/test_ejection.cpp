// The searches by ejection and by orders: what is in the way of the first against every offset tried, their plans
// against all pairs, and how often they end at the optimum of small problems.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "memplan/plan.hpp"
#include "memplan/problem.hpp"
#include "memplan/registry.hpp"
#include "plain_checks.hpp"
#include "search/ejection/ejection_search.hpp"
#include "search/ejection/obstacles.hpp"
#include "search/orders/order_search.hpp"

using namespace memplan;

namespace {

constexpr Bytes kTried = 60;  // offsets

std::mt19937_64 generator(7);

int below(int limit) { return static_cast<int>(generator() % static_cast<std::uint64_t>(limit)); }

// Some buffers, with whatever a problem may have: conflicts, parts, alignment, buffers without bytes.
Problem mixed_problem(int buffers, bool may_have_shapes = true) {
  const int steps = 2 + below(8), most = 2 << below(4);
  const bool aligned = below(2), shaped = below(2) && may_have_shapes, conflicting = below(2);
  std::vector<Bytes> size, alignment;
  std::vector<Step> first, last;
  std::vector<Part> parts;
  for (Index i = 0; i < buffers; ++i) {
    size.push_back(below(12) == 0 ? 0 : 1 + below(most));
    first.push_back(below(steps));
    last.push_back(first.back() + 1 + below(steps));
    alignment.push_back(aligned ? 1 + below(4) : 1);
    if (!shaped || size.back() < 2 || below(2)) continue;
    const Bytes cut = 1 + below(static_cast<int>(size.back()) - 1);
    const Step turn = first.back() + below(static_cast<int>(last.back() - first.back()) + 1);
    if (turn > first.back()) parts.push_back({i, 0, cut, first.back(), turn});
    if (turn < last.back()) parts.push_back({i, below(2) ? 0 : cut, size.back(), turn, last.back()});
  }
  Conflicts conflicts(buffers);
  for (Index a = 0; a < buffers; ++a)
    for (Index b = 0; b < a; ++b)
      if (conflicting && below(3) == 0) conflicts.add(a, b);
  Problem problem(size, first, last, alignment);
  if (!conflicts.empty()) problem = problem.with_conflicts(conflicts);
  return parts.empty() ? problem : problem.with_shapes(parts);
}

Bytes some_offset(const Problem& problem, Index i) {
  return problem.alignment(i) * below(static_cast<int>(kTried / problem.alignment(i) / 2));
}

// What a look at buffer i says of every offset, against all pairs.
void compare(const Problem& problem, const Obstacles& obstacles, Index i) {
  const auto ranges = obstacles.ranges();
  for (std::size_t k = 1; k < ranges.size(); ++k) CHECK(ranges[k - 1].after <= ranges[k].after);
  CHECK(obstacles.ends().size() == ranges.size());
  for (std::size_t k = 1; k < ranges.size(); ++k) CHECK(obstacles.ends()[k - 1].offset <= obstacles.ends()[k].offset);
  Bytes lowest = kNowhere;
  for (Bytes offset = 0; offset < 2 * kTried; offset += problem.alignment(i)) {
    std::vector<int> blocked(problem.size().size(), 0), ended(blocked);
    for (const Obstacles::Range& range : ranges)
      blocked[at(range.buffer)] += range.after < offset && offset < range.before;
    bool free = true;
    for (Index j = 0; j < problem.count(); ++j) {
      const Bytes other = obstacles.offset(j);
      const bool meets = other != kNowhere && plain::faults(problem, i, offset, j, other) > 0;
      CHECK(blocked[at(j)] == (meets ? 1 : 0));
      free = free && !meets;
    }
    if (free && lowest == kNowhere) lowest = offset;
  }
  CHECK(obstacles.lowest(i) == lowest);
}

void obstacles_are_those_of_all_pairs() {
  const Problem problem = mixed_problem(2 + below(8));
  Obstacles obstacles(problem, Deadline());
  for (int turn = 0; turn < 30; ++turn) {
    const Index i = below(problem.count());
    if (problem.size(i) == 0) continue;
    if (obstacles.offset(i) != kNowhere) obstacles.remove(i);
    obstacles.look(i);
    compare(problem, obstacles, i);
    if (below(4) > 0) obstacles.add(i, some_offset(problem, i));
    if (below(30) == 0) obstacles.clear();
  }
}

Bytes optimum(const Problem& problem) {
  const ChosenPlanner planner = choose_planner("auto");
  const Placement placement = run(planner.planner, problem, PlanOptions{});
  const Bytes peak = peak_of(problem, placement.offsets);
  return placement.lower_bound == peak ? peak : kNowhere;
}

std::vector<Bytes> stacked(const Problem& problem) {
  std::vector<Bytes> offsets;
  Bytes top = 0;
  for (Index i = 0; i < problem.count(); ++i) {
    offsets.push_back(align_up(top, problem.alignment(i)));
    top = offsets.back() + problem.size(i);
  }
  return offsets;
}

Bytes largest(const Problem& problem) {
  Bytes most = 1;
  for (const Bytes size : problem.size()) most = std::max(most, size);
  return most;
}

void check_plan(const Problem& problem, const std::vector<Bytes>& offsets) {
  CHECK(plain::aligned(problem, offsets));
  CHECK(plain::faults(problem, offsets) == 0);
}

// The best peak, in slices as a portfolio gives them.
template <class Search>
void plans_are_valid_and_mostly_best(bool may_have_shapes) {
  int known = 0, met = 0;
  for (int problems = 0; problems < 400; ++problems) {
    const Problem problem = mixed_problem(4 + below(6), may_have_shapes);
    const std::vector<Bytes> start = stacked(problem);
    Search search(problem, 3, Deadline());
    std::vector<Bytes> best = start;
    for (int slice = 0; slice < 4; ++slice) {
      const Bytes before = peak_of(problem, best);
      const bool better = search.step({best, peak_of(problem, best)}, largest(problem), 30000, Deadline());
      CHECK(peak_of(problem, search.offsets()) <= before);
      CHECK(better == (peak_of(problem, search.offsets()) < before));
      best = search.offsets();
      check_plan(problem, best);
    }
    if (problems % 4 == 0) {
      Search again(problem, 3, Deadline());
      std::vector<Bytes> repeated = start;
      for (int slice = 0; slice < 4; ++slice) {
        again.step({repeated, peak_of(problem, repeated)}, largest(problem), 30000, Deadline());
        repeated = again.offsets();
      }
      CHECK(repeated == best);
    }
    const Bytes least = optimum(problem);
    known += least != kNowhere;
    met += least == peak_of(problem, best);
  }
  CHECK(known > 390);
  CHECK(met > known - 8);
}

// A better plan from elsewhere is taken up, and enough is enough.
template <class Search>
void it_learns_and_ends() {
  const Problem problem({2, 2, 2}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1});
  Search search(problem, 0, Deadline());
  const std::vector<Bytes> low{0, 2, 4}, high{0, 2, 9};
  CHECK(!search.step({low, peak_of(problem, low)}, 6, 1000, Deadline()));
  CHECK(search.work() == 0);
  CHECK(search.step({high, peak_of(problem, high)}, 8, 1000, Deadline()) == true);
  CHECK(peak_of(problem, search.offsets()) == 6);
}

}  // namespace

int main() {
  for (int problems = 0; problems < 300; ++problems) obstacles_are_those_of_all_pairs();
  plans_are_valid_and_mostly_best<EjectionSearch>(true);
  plans_are_valid_and_mostly_best<OrderSearch>(false);
  it_learns_and_ends<EjectionSearch>();
  it_learns_and_ends<OrderSearch>();
  return check::finish();
}
