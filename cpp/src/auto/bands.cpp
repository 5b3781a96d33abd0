#include "auto/bands.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "problem/clique_search.hpp"
#include "problem/order_rows.hpp"
#include "problem/orders.hpp"
#include "search/pairs/pairs.hpp"

namespace memplan {

namespace {

constexpr std::size_t kBandWordsPerTick = 8;  // of the deadline

Problem with_lives(const Problem& problem, const std::vector<Index>& buffers, OrderRows::Lives lives) {
  std::vector<Bytes> size, alignment;
  for (const Index i : buffers) {
    size.push_back(problem.size(i));
    alignment.push_back(problem.alignment(i));
  }
  return Problem(std::move(size), std::move(lives.first), std::move(lives.last), std::move(alignment));
}

std::vector<Index> all_of(Index count) {
  std::vector<Index> all(at(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Band band_of(const Problem& problem, std::vector<Index> buffers, const Deadline& deadline) {
  if (problem.conflicts() != nullptr && !problem.has_shapes()) {
    OrderRows rows(problem, buffers, deadline);
    if (rows.make_order(deadline))
      if (auto lives = rows.lives(all_of(rows.count()), deadline)) {
        Problem plain = with_lives(problem, buffers, *std::move(lives));
        return {std::move(buffers), std::move(plain)};
      }
  }
  Problem part = problem.subset(buffers);
  return {std::move(buffers), std::move(part)};
}

// Groups that no chain of pairs connects that need not be wholly apart.
std::vector<std::vector<Index>> joined_groups(const Problem& problem, const Deadline& deadline) {
  std::vector<Index> rest = with_bytes(problem);
  std::vector<std::vector<Index>> groups;
  while (!rest.empty()) {
    std::vector<Index> group = {rest.front()};
    rest.erase(rest.begin());
    for (std::size_t k = 0; k < group.size() && !rest.empty(); ++k) {
      deadline.tick(rest.size());
      const auto reached =
          std::stable_partition(rest.begin(), rest.end(), [&](Index i) { return problem.wholly_apart(group[k], i); });
      group.insert(group.end(), reached, rest.end());
      rest.erase(reached, rest.end());
    }
    std::sort(group.begin(), group.end());
    groups.push_back(std::move(group));
  }
  return groups;
}

// Unites what takes over from one another, where `next` are rows of what follows, and `back` of what goes before.
template <class Next, class Back>
void unite(Index count, const Next& next, const Back& back, std::vector<Index>& leader, const Deadline& deadline) {
  const auto leader_of = [&](Index i) {
    while (leader[at(i)] != i) i = leader[at(i)] = leader[at(leader[at(i)])];
    return i;
  };
  std::vector<int> counts;
  for (Index b = 0; b < count; ++b) {
    int bits = 0;
    for (const std::uint64_t word : back(b)) bits += std::popcount(word);
    counts.push_back(bits);
  }
  for (Index a = 0; a < count; ++a) {
    Index least = kNone;
    for_each_bit(next(a), [&](Index b) {
      if (least == kNone || counts[at(b)] < counts[at(least)]) least = b;
    });
    if (least == kNone) continue;
    bool is_least = true;
    for_each_bit(next(a), [&](Index b) {
      if (!is_least) return;
      const auto some = back(least), all = back(b);
      deadline.tick(some.size() / kBandWordsPerTick + 1);
      for (std::size_t w = 0; w < some.size() && is_least; ++w) is_least = (some[w] & ~all[w]) == 0;
    });
    if (!is_least) continue;
    for_each_bit(next(a), [&](Index b) {
      if (counts[at(b)] == counts[at(least)]) leader[at(leader_of(b))] = leader_of(a);
    });
  }
  for (Index i = 0; i < count; ++i) leader[at(i)] = leader_of(i);
}

}  // namespace

std::vector<Band> separate_bands(const Problem& problem, const Deadline& deadline) {
  std::vector<Band> bands;
  for (std::vector<Index>& group : connected_parts(problem, deadline))
    bands.push_back(band_of(problem, std::move(group), deadline));
  return bands;
}

std::vector<Band> joined_bands(const Problem& problem, const Deadline& deadline) {
  std::vector<Band> bands;
  for (std::vector<Index>& group : joined_groups(problem, deadline))
    bands.push_back(band_of(problem, std::move(group), deadline));
  return bands;
}

std::vector<Band> likely_bands(const Problem& problem, const Deadline& deadline) {
  const std::vector<Index> buffers = with_bytes(problem);
  OrderRows rows(problem, buffers, deadline);
  if (!rows.make_order(deadline)) return {};
  const auto after = [&](Index i) { return rows.after(i); };
  const auto before = [&](Index i) { return rows.before(i); };
  std::vector<Index> leader = all_of(rows.count());
  unite(rows.count(), after, before, leader, deadline);
  unite(rows.count(), before, after, leader, deadline);
  std::vector<std::vector<Index>> groups(at(rows.count()));
  for (Index k = 0; k < rows.count(); ++k) groups[at(leader[at(k)])].push_back(k);
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  if (groups.size() < 2) return {};
  std::vector<Band> bands;
  for (const std::vector<Index>& group : groups) {
    std::vector<Index> of;
    for (const Index k : group) of.push_back(buffers[at(k)]);
    if (auto lives = rows.lives(group, deadline)) {
      Problem plain = with_lives(problem, of, *std::move(lives));
      bands.push_back({std::move(of), std::move(plain)});
    } else {
      Problem part = problem.subset(of);
      bands.push_back({std::move(of), std::move(part)});
    }
  }
  return bands;
}

}  // namespace memplan
