// The search on pairs, the squeeze that drives it and the cliques that it uses: each against all placements of a few
// buffers of a few bytes.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "memplan/clique.hpp"
#include "memplan/plan.hpp"
#include "memplan/refute.hpp"
#include "plain_checks.hpp"
#include "problem/antichain.hpp"
#include "problem/clique_search.hpp"
#include "search/pairs/pair_search.hpp"
#include "search/pairs/pair_squeeze.hpp"

using namespace memplan;

namespace {

using Gaps = std::vector<OffsetGap>;

std::mt19937_64 generator(5);

Index below(Index limit) { return static_cast<Index>(generator() % static_cast<std::uint64_t>(limit)); }

Problem with_pairs(const Problem& problem, const std::vector<std::pair<Index, Index>>& pairs) {
  Conflicts conflicts(problem.count());
  for (const auto& [a, b] : pairs) conflicts.add(a, b);
  return problem.with_conflicts(std::move(conflicts));
}

// Buffers that never live together, so that only these conflict.
Problem apart(const std::vector<Bytes>& size, const std::vector<std::pair<Index, Index>>& pairs,
              std::vector<Bytes> alignment = {}) {
  std::vector<Step> first, last;
  for (std::size_t i = 0; i < size.size(); ++i) {
    first.push_back(static_cast<Step>(i));
    last.push_back(static_cast<Step>(i) + 1);
  }
  return with_pairs(Problem(size, first, last, std::move(alignment)), pairs);
}

// Of three to five buffers, with alignments, conflicts and shapes.
Problem random_problem() {
  const Index count = 3 + below(3);
  std::vector<Bytes> size, alignment;
  std::vector<Step> first, last;
  const Index kind = below(3);
  for (Index i = 0; i < count; ++i) {
    size.push_back(1 + below(6));
    first.push_back(below(4));
    last.push_back(first.back() + 1 + below(3));
    alignment.push_back(kind == 0 ? 1 : kind == 1 ? 3 : 1 + below(4));
  }
  Problem problem(size, first, last, alignment);
  std::vector<std::pair<Index, Index>> pairs;
  for (Index a = 0; a < count; ++a)
    for (Index b = 0; b < a; ++b)
      if (below(3) == 0) pairs.emplace_back(a, b);
  if (!pairs.empty() && below(4) > 0) problem = with_pairs(problem, pairs);
  std::vector<Part> parts;
  for (Index i = 0; i < count; ++i) {
    const Bytes middle = 1 + below(6);
    if (middle >= size[at(i)] || last[at(i)] - first[at(i)] < 2 || below(2) == 0) continue;
    parts.push_back({i, 0, middle, first[at(i)], last[at(i)] - below(2)});
    parts.push_back({i, middle, size[at(i)], first[at(i)] + below(2), last[at(i)]});
  }
  return parts.empty() ? problem : problem.with_shapes(parts);
}

Bytes optimum_of(const Problem& problem) {
  Bytes least = 0;
  while (!plain::fits(problem, least)) ++least;
  return least;
}

std::vector<Index> all_of(const Problem& problem) {
  std::vector<Index> buffers;
  for (Index i = 0; i < problem.count(); ++i) buffers.push_back(i);
  return buffers;
}

void gaps_are_what_is_not_forbidden() {
  constexpr Bytes far = Pairs::kFar;
  const Problem together({4, 3}, {0, 1}, {2, 3});
  CHECK(gaps_between(together, 0, 1) == (Gaps{{-far, -3}, {4, far}}));
  CHECK(gaps_between(together, 1, 0) == (Gaps{{-far, -4}, {3, far}}));
  CHECK(gaps_between(Problem({4, 3}, {0, 2}, {2, 3}), 0, 1) == (Gaps{{-far, far}}));
  CHECK(gaps_between(apart({4, 3}, {{0, 1}}), 0, 1) == (Gaps{{-far, -3}, {4, far}}));
  CHECK(gaps_between(apart({4, 3}, {{0, 1}}, {4, 8}), 0, 1) == (Gaps{{-far, -4}, {4, far}}));
  // The lower half of the first is in use early, and its upper half late; the other lives throughout, or early.
  const std::vector<Part> halves = {{0, 0, 4, 0, 1}, {0, 4, 8, 1, 2}};
  CHECK(gaps_between(Problem({8, 2}, {0, 0}, {2, 2}).with_shapes(halves), 0, 1) == (Gaps{{-far, -2}, {8, far}}));
  CHECK(gaps_between(Problem({8, 2}, {0, 0}, {2, 1}).with_shapes(halves), 0, 1) == (Gaps{{-far, -2}, {4, far}}));
  // Both halves forbid, and leave a gap where the second fits between.
  const std::vector<Part> holes = {{0, 0, 2, 0, 2}, {0, 6, 8, 0, 2}};
  CHECK(gaps_between(Problem({8, 3}, {0, 0}, {2, 2}).with_shapes(holes), 0, 1) == (Gaps{{-far, -3}, {2, 3}, {8, far}}));
}

void every_difference_is_allowed_or_forbidden() {
  for (int round = 0; round < 300; ++round) {
    const Problem problem = random_problem();
    const Bytes step = std::gcd(problem.alignment(0), problem.alignment(1));
    const Gaps gaps = gaps_between(problem, 0, 1);
    for (Bytes difference = -12 * step; difference <= 12 * step; difference += step) {
      const bool allowed = std::any_of(gaps.begin(), gaps.end(), [&](const OffsetGap& gap) {
        return gap.lowest <= difference && difference <= gap.highest;
      });
      CHECK(allowed == (plain::faults(problem, 0, 0, 1, difference) == 0));
    }
  }
}

// The search says what trying all placements says, for every capacity, with and without a record.
void the_search_is_exact() {
  int found = 0, infeasible = 0;
  for (int round = 0; round < 600; ++round) {
    const Problem problem = random_problem();
    const Bytes optimum = optimum_of(problem);
    const std::vector<Clique> cliques = some_cliques(problem);
    for (Bytes capacity = std::max<Bytes>(0, optimum - 3); capacity < optimum + 3; ++capacity) {
      const Pairs pairs(problem, all_of(problem), capacity, Deadline());
      ProofTree tree;
      for (ProofTree* of : {static_cast<ProofTree*>(nullptr), &tree}) {
        PairSearch search(problem, pairs, cliques, 1, of);
        const Decision outcome = search.run(capacity, {kEndless, kEndless, Deadline()});
        CHECK(outcome == (capacity < optimum ? Decision::infeasible : Decision::found));
        infeasible += outcome == Decision::infeasible;
        if (outcome != Decision::found) continue;
        ++found;
        std::vector<Bytes> offsets(problem.size().size(), 0);
        for (Index i = 0; i < pairs.count(); ++i) offsets[at(pairs.buffer(i))] = search.offsets()[at(i)];
        pairs.complete(offsets);
        CHECK(plain::faults(problem, offsets) == 0);
        CHECK(plain::aligned(problem, offsets));
        CHECK(peak_of(problem, offsets) <= capacity);
      }
    }
    CHECK(refute(problem, optimum - 1, kEndless).has_value());
    CHECK(!refute(problem, optimum, kEndless).has_value());
  }
  CHECK(found > 1000);
  CHECK(infeasible > 1000);
}

void limits_leave_it_undecided() {
  // A ring of five: two neighbours add up to 11, and 15 are needed.
  const Problem ring = apart({4, 5, 6, 5, 6}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 4}});
  const Pairs pairs(ring, all_of(ring), 12, Deadline());
  const std::vector<Clique> cliques = some_cliques(ring);
  PairSearch search(ring, pairs, cliques, 1);
  CHECK(search.run(14, {0, kEndless, Deadline()}) == Decision::undecided);
  CHECK(search.run(14, {kEndless, 0, Deadline()}) == Decision::undecided);
  CHECK(search.run(14, {kEndless, kEndless, Deadline()}) == Decision::infeasible);
  CHECK(search.run(15, {kEndless, kEndless, Deadline()}) == Decision::found);
}

// What needs no search is left out, and finds its place.
void some_are_left_out() {
  // 2 forbids less than 0, and may lie where it lies.
  const Problem beneath = apart({4, 4, 3}, {{0, 1}, {1, 2}});
  CHECK(Pairs(beneath, all_of(beneath), 8, Deadline()).count() <= 2);
  // It may not if it is larger, conflicts with it, or needs another alignment.
  const Problem larger = apart({4, 4, 5}, {{0, 1}, {1, 2}});
  const Problem conflicting = apart({4, 4, 3}, {{0, 1}, {1, 2}, {0, 2}});
  const Problem aligned = apart({4, 4, 4}, {{0, 1}, {1, 2}}, {1, 1, 8});
  CHECK(Pairs(conflicting, all_of(conflicting), 11, Deadline()).count() == 3);
  for (const Problem& problem : {larger, aligned}) {
    const Pairs pairs(problem, all_of(problem), 0, Deadline());
    std::set<Index> kept;
    for (Index i = 0; i < pairs.count(); ++i) kept.insert(pairs.buffer(i));
    CHECK(kept.contains(2) || !kept.contains(0));
  }
  // A byte beside two of two bytes blocks at most two offsets for each: of six offsets two are left.
  const Problem finds = apart({2, 2, 1}, {{0, 1}, {1, 2}, {0, 2}});
  CHECK(Pairs(finds, all_of(finds), 6, Deadline()).count() == 0);
  const Pairs pairs(finds, {0, 1, 2}, 5, Deadline());
  std::vector<Bytes> offsets(3, 0);
  for (Index i = 0; i < pairs.count(); ++i) offsets[at(pairs.buffer(i))] = 2 * i;
  pairs.complete(offsets);
  CHECK(plain::faults(finds, offsets) == 0);
}

void twins_can_be_exchanged() {
  const auto twins = [](const Problem& problem) {
    const Pairs pairs(problem, all_of(problem), 0, Deadline());
    return pairs.count() == problem.count() && pairs.twins(0, 1);
  };
  const std::vector<std::pair<Index, Index>> same = {{0, 1}, {0, 2}, {1, 2}};
  CHECK(twins(apart({3, 3, 4}, same)));
  CHECK(!twins(apart({3, 4, 4}, same)));
  CHECK(!twins(apart({3, 3, 4}, same, {1, 2, 1})));
  CHECK(!twins(apart({3, 3, 4, 9, 9}, {{0, 1}, {0, 2}, {1, 2}, {0, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}})));
}

// Parts that nothing connects are searched apart, and each ends at its own optimum or below another's.
void the_squeeze_meets_its_bound() {
  int above = 0;
  for (int round = 0; round < 400; ++round) {
    const Problem problem = random_problem();
    const Bytes optimum = optimum_of(problem);
    Bytes bound = 0;
    for (const Bytes size : problem.size()) bound = std::max(bound, size);
    PairSqueeze squeeze(problem, bound, 1, Deadline());
    CHECK(squeeze.is_exact());
    std::vector<Bytes> best;  // one above another
    Bytes end = 0;
    for (Index i = 0; i < problem.count(); ++i) {
      best.push_back(align_up(end, problem.alignment(i)));
      end = best.back() + problem.size(i);
    }
    const bool better = squeeze.step({best, peak_of(problem, best)}, 0, kEndless, Deadline());
    CHECK(squeeze.is_done(kMaxBytes));
    CHECK(better == (peak_of(problem, squeeze.offsets()) < peak_of(problem, best)));
    CHECK(plain::faults(problem, squeeze.offsets()) == 0);
    CHECK(peak_of(problem, squeeze.offsets()) == optimum);
    CHECK(squeeze.lower_bound() == optimum);
    above += optimum > heaviest_clique(problem).bytes;
  }
  CHECK(above > 20);
}

void parts_are_what_pairs_connect() {
  const Problem two = apart({1, 1, 1, 1, 0}, {{0, 2}, {1, 3}});
  CHECK(connected_parts(two, Deadline()).size() == 2);
  const Problem one = apart({1, 1, 1, 1, 0}, {{0, 2}, {1, 3}, {2, 3}});
  CHECK(connected_parts(one, Deadline()).size() == 1);
  CHECK(connected_parts(one, Deadline()).front() == (std::vector<Index>{0, 1, 2, 3}));
}

// No clique is above the optimum, and without alignments and shapes the heaviest is that of all sets.
void cliques_bound_all_plans() {
  for (int round = 0; round < 400; ++round) {
    const Problem problem = random_problem();
    const Clique clique = heaviest_clique(problem);
    CHECK(clique.bytes <= optimum_of(problem));
    const bool plain = !problem.has_shapes() && std::all_of(problem.alignment().begin(), problem.alignment().end(),
                                                            [](Bytes alignment) { return alignment == 1; });
    if (!plain) continue;
    Bytes heaviest = 0;
    for (int set = 1; set < 1 << problem.count(); ++set) {
      Bytes bytes = 0;
      bool all = true;
      for (Index a = 0; a < problem.count(); ++a) {
        if ((set >> a & 1) == 0) continue;
        bytes += problem.size(a);
        for (Index b = 0; b < a; ++b) all = all && ((set >> b & 1) == 0 || plain::faults(problem, a, 0, b, 0) > 0);
      }
      if (all) heaviest = std::max(heaviest, bytes);
    }
    CHECK(clique.bytes == heaviest);
  }
}

WeightedGraph random_graph(Index count, Index in) {
  std::vector<Bytes> weights;
  for (Index v = 0; v < count; ++v) weights.push_back(1 + below(9));
  WeightedGraph graph(weights);
  for (Index a = 0; a < count; ++a)
    for (Index b = 0; b < a; ++b)
      if (below(in) > 0) graph.join(a, b);
  return graph;
}

void a_search_finds_the_heaviest_clique() {
  for (int round = 0; round < 200; ++round) {
    const WeightedGraph graph = random_graph(1 + below(11), 2 + below(3));
    Bytes heaviest = 0;
    for (int set = 1; set < 1 << graph.count(); ++set) {
      Bytes weight = 0;
      bool all = true;
      for (Index a = 0; a < graph.count(); ++a) {
        if ((set >> a & 1) == 0) continue;
        weight += graph.weight(a);
        for (Index b = 0; b < a; ++b) all = all && ((set >> b & 1) == 0 || graph.joined(a, b));
      }
      if (all) heaviest = std::max(heaviest, weight);
    }
    CliqueSearch search(graph, [](std::size_t) {});
    CHECK(search.run(kEndless));
    CHECK(search.weight() == heaviest);
    Bytes weight = 0;
    for (const Index v : search.best()) weight += graph.weight(v);
    CHECK(weight == heaviest);
  }
}

// Of a random partial order, in which the graph joins what is not ordered.
void a_flow_finds_the_heaviest_antichain() {
  for (int round = 0; round < 200; ++round) {
    const Index count = 1 + below(9);
    std::vector<Bytes> weights;
    for (Index v = 0; v < count; ++v) weights.push_back(1 + below(9));
    std::vector<std::vector<bool>> follows(at(count), std::vector<bool>(at(count), false));
    for (Index a = count - 1; a >= 0; --a)
      for (Index b = a + 1; b < count; ++b)
        if (below(3) == 0) {
          follows[at(a)][at(b)] = true;
          for (Index c = b + 1; c < count; ++c)
            if (follows[at(b)][at(c)]) follows[at(a)][at(c)] = true;
        }
    WeightedGraph graph(weights);
    for (Index a = 0; a < count; ++a)
      for (Index b = a + 1; b < count; ++b)
        if (!follows[at(a)][at(b)]) graph.join(a, b);
    CliqueSearch search(graph, [](std::size_t) {});
    CHECK(search.run(kEndless));
    const auto found = heaviest_antichain(
        graph, [&](Index a, Index b) { return follows[at(a)][at(b)]; }, kEndless, [](std::size_t) {});
    CHECK(found.has_value());
    Bytes weight = 0;
    for (const Index v : found.value_or(std::vector<Index>{})) weight += graph.weight(v);
    CHECK(weight == search.weight());
  }
}

}  // namespace

int main() {
  gaps_are_what_is_not_forbidden();
  every_difference_is_allowed_or_forbidden();
  the_search_is_exact();
  limits_leave_it_undecided();
  some_are_left_out();
  twins_can_be_exchanged();
  the_squeeze_meets_its_bound();
  parts_are_what_pairs_connect();
  cliques_bound_all_plans();
  a_search_finds_the_heaviest_clique();
  a_flow_finds_the_heaviest_antichain();
  return check::finish();
}
