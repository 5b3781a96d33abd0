// Bands: lifetimes for conflict graphs that have some, groups that conflict with one another, and plans of these on
// each other, against all placements of small problems.
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "auto/bands.hpp"
#include "check.hpp"
#include "memplan/partial_order.hpp"
#include "memplan/solve.hpp"
#include "plain_checks.hpp"
#include "problem/order_rows.hpp"

using namespace memplan;

namespace {

using Pairs = std::vector<std::pair<Index, Index>>;

std::mt19937_64 generator(3);

Index below(Index limit) { return static_cast<Index>(generator() % static_cast<std::uint64_t>(limit)); }

bool conflict(const Problem& p, Index a, Index b) {
  return (p.first(a) < p.last(b) && p.first(b) < p.last(a)) || (p.conflicts() && p.conflicts()->contains(a, b));
}

// Buffers that live one after another, so that only these conflict.
Problem apart(const std::vector<Bytes>& size, const Pairs& pairs, Bytes alignment = 1) {
  std::vector<Step> first(size.size()), last(size.size());
  std::iota(first.begin(), first.end(), 0);
  std::iota(last.begin(), last.end(), 1);
  Conflicts conflicts(static_cast<Index>(size.size()));
  for (const auto& [a, b] : pairs) conflicts.add(a, b);
  return Problem(size, first, last, std::vector<Bytes>(size.size(), alignment)).with_conflicts(std::move(conflicts));
}

// The same conflicts, as pairs alone; buffers in another order.
Problem disguised(const Problem& problem) {
  std::vector<Index> order(at(problem.count()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), generator);
  std::vector<Bytes> size;
  Pairs pairs;
  for (Index a = 0; a < problem.count(); ++a) {
    size.push_back(problem.size(order[at(a)]));
    for (Index b = 0; b < a; ++b)
      if (conflict(problem, order[at(a)], order[at(b)])) pairs.emplace_back(b, a);
  }
  return apart(size, pairs);
}

Problem random_lives(Index count) {
  std::vector<Bytes> size;
  std::vector<Step> first, last;
  for (Index i = 0; i < count; ++i) {
    size.push_back(1 + below(9));
    first.push_back(below(2 * count));
    last.push_back(first.back() + 1 + below(count));
  }
  return Problem(size, first, last);
}

void check_same_conflicts(const Problem& problem, const Band& band) {
  for (Index a = 0; a < band.problem.count(); ++a) {
    CHECK(band.problem.size(a) == problem.size(band.buffers[at(a)]));
    CHECK(band.problem.alignment(a) == problem.alignment(band.buffers[at(a)]));
    for (Index b = 0; b < a; ++b)
      CHECK(conflict(band.problem, a, b) == conflict(problem, band.buffers[at(a)], band.buffers[at(b)]));
  }
}

void conflicts_of_lifetimes_get_lifetimes() {
  for (int k = 0; k < 300; ++k) {
    const Problem problem = disguised(random_lives(1 + below(20)));
    for (const Band& band : joined_bands(problem, Deadline())) {
      CHECK(band.problem.conflicts() == nullptr);
      check_same_conflicts(problem, band);
    }
  }
}

void what_has_no_lifetimes_keeps_its_conflicts() {
  const Problem ring = apart({1, 1, 1, 1, 1}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 4}});
  OrderRows rows(ring, {0, 1, 2, 3, 4}, Deadline());
  CHECK(!rows.make_order(Deadline()));  // its complement is a ring of five, which cannot be turned
  const std::vector<Band> bands = joined_bands(ring, Deadline());
  CHECK(bands.size() == std::size_t{1});
  CHECK(bands[0].problem.conflicts() != nullptr);
  check_same_conflicts(ring, bands[0]);

  const Problem square = apart({1, 1, 1, 1}, {{0, 1}, {1, 2}, {2, 3}, {0, 3}});
  OrderRows two_chains(square, {0, 1, 2, 3}, Deadline());
  CHECK(two_chains.make_order(Deadline()));
  CHECK(!two_chains.lives({0, 1, 2, 3}, Deadline()));  // two and two that may follow one another
  CHECK(joined_bands(square, Deadline()).size() == std::size_t{2});
}

// Groups are apart with all their bytes, and none splits.
void joined_bands_are_apart() {
  for (int k = 0; k < 200; ++k) {
    const Index count = 2 + below(10);
    Pairs pairs;
    for (Index a = 0; a < count; ++a)
      for (Index b = 0; b < a; ++b)
        if (below(4) > 0) pairs.emplace_back(b, a);
    const Problem problem = apart(std::vector<Bytes>(at(count), 2), pairs);
    std::vector<int> group(at(count), -1);
    const std::vector<Band> bands = joined_bands(problem, Deadline());
    for (std::size_t g = 0; g < bands.size(); ++g) {
      for (const Index i : bands[g].buffers) group[at(i)] = static_cast<int>(g);
      check_same_conflicts(problem, bands[g]);
      std::vector<Index> reached = {0};
      std::vector<bool> seen(bands[g].buffers.size(), false);
      seen[0] = true;
      for (std::size_t r = 0; r < reached.size(); ++r)
        for (Index i = 0; i < bands[g].problem.count(); ++i)
          if (!seen[at(i)] && !conflict(bands[g].problem, reached[r], i)) {
            seen[at(i)] = true;
            reached.push_back(i);
          }
      CHECK(reached.size() == bands[g].buffers.size());
    }
    for (Index a = 0; a < count; ++a)
      for (Index b = 0; b < a; ++b) CHECK(group[at(a)] == group[at(b)] || conflict(problem, a, b));
  }
}

// Groups never meet, and none falls apart.
void separate_bands_never_meet() {
  for (int k = 0; k < 200; ++k) {
    const Problem problem = random_lives(2 + below(12));
    std::vector<int> group(problem.size().size(), -1);
    const std::vector<Band> bands = separate_bands(disguised(problem), Deadline());
    std::size_t buffers = 0;
    for (const Band& band : bands) {
      buffers += band.buffers.size();
      CHECK(separate_bands(band.problem, Deadline()).size() == 1);
    }
    CHECK(buffers == problem.size().size());
    const std::vector<Band> by_lives = separate_bands(problem, Deadline());
    CHECK(by_lives.size() == bands.size());
    for (std::size_t g = 0; g < by_lives.size(); ++g)
      for (const Index i : by_lives[g].buffers) group[at(i)] = static_cast<int>(g);
    for (Index a = 0; a < problem.count(); ++a)
      for (Index b = 0; b < a; ++b) CHECK(group[at(a)] == group[at(b)] || !conflict(problem, a, b));
  }
}

// With shapes, conflicts alone keep all bytes apart: bytes that are in use together may interlock.
void shapes_that_live_together_are_no_band_each() {
  const std::vector<Part> parts = {{0, 0, 2, 0, 1}, {0, 2, 4, 1, 2}, {1, 2, 4, 0, 1}, {1, 0, 2, 1, 2}};
  Conflicts conflicts(3);
  conflicts.add(0, 2);
  conflicts.add(1, 2);
  const Problem problem =
      Problem({4, 4, 1}, {0, 0, 2}, {2, 2, 3}).with_shapes(parts).with_conflicts(std::move(conflicts));
  CHECK(joined_bands(problem, Deadline()).size() == std::size_t{2});
  const Plan plan = solve(problem, "auto");
  CHECK(plan.peak == Bytes{5});
  CHECK(plan.optimal);
}

// Two groups, all apart or never; sizes are no multiples of the alignment that all have.
void auto_proves_groups(bool joined) {
  for (int k = 0; k < 60; ++k) {
    const Bytes alignment = 1 + below(3);
    const Index each = 3;
    Pairs pairs;
    std::vector<Bytes> size;
    for (Index a = 0; a < 2 * each; ++a) {
      size.push_back(1 + below(4));
      for (Index b = 0; b < a; ++b)
        if ((a < each) != (b < each) ? joined : below(2) > 0) pairs.emplace_back(b, a);
    }
    const Problem problem = apart(size, pairs, alignment);
    CHECK(separate_bands(problem, Deadline()).size() > 1 || joined_bands(problem, Deadline()).size() > 1);
    Bytes optimum = 0;
    while (!plain::fits(problem, optimum)) ++optimum;
    const Plan plan = solve(problem, "auto");
    CHECK(plan.peak == optimum);
    CHECK(plan.optimal);
  }
}

// Two threads whose events are even and odd, each with two rows of bricks; now and then one waits for the other.
// Each row is a band: what begins where a brick ends takes over from it.
void likely_bands_are_of_one_thread() {
  std::vector<Bytes> size;
  std::vector<Step> first, last;
  std::vector<int> thread;
  std::vector<std::pair<Step, Step>> waits;
  constexpr Step kEvents = 12;
  for (int t = 0; t < 2; ++t) {
    for (Step e = 0; e + 1 < kEvents; ++e) waits.emplace_back(2 * e + t, 2 * e + 2 + t);
    for (int row = 0; row < 2; ++row)
      for (Step e = row; e + 2 < kEvents; e += 2) {
        size.push_back(4 + row + t);
        first.push_back(2 * e + t);
        last.push_back(2 * e + 4 + t);
        thread.push_back(t);
      }
  }
  waits.emplace_back(8, 11);  // thread 1 waits for thread 0
  waits.emplace_back(13, 18);
  const Problem problem = with_happens_before(Problem(size, first, last), waits);
  CHECK(joined_bands(problem, Deadline()).size() == std::size_t{1});
  for (const Problem& given : {problem, disguised(problem)}) {
    const std::vector<Band> bands = likely_bands(given, Deadline());
    CHECK(bands.size() == std::size_t{4});
    for (const Band& band : bands) {
      CHECK(band.problem.conflicts() == nullptr);
      check_same_conflicts(given, band);
    }
  }
  for (const Band& band : likely_bands(problem, Deadline()))
    for (const Index i : band.buffers) CHECK(thread[at(i)] == thread[at(band.buffers.front())]);
}

}  // namespace

int main() {
  conflicts_of_lifetimes_get_lifetimes();
  what_has_no_lifetimes_keeps_its_conflicts();
  joined_bands_are_apart();
  separate_bands_never_meet();
  shapes_that_live_together_are_no_band_each();
  auto_proves_groups(true);
  auto_proves_groups(false);
  likely_bands_are_of_one_thread();
  return check::finish();
}
