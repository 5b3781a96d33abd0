#include "pricing/groups_apart.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "base/chance.hpp"
#include "pricing/open_pairs.hpp"
#include "problem/clique_search.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr std::size_t kWindow = 1024, kStep = 512;  // buffers
constexpr int kGrowths = 12;                        // per buffer
constexpr std::size_t kMostGroups = 96;
constexpr std::int32_t kForNothing = -2, kGroupsApart = -1;  // of two buffers: may share for nothing, never share

// Buffers born one after another, and what is between every two of them.
class Window {
 public:
  Window(const Problem& problem, std::span<const PairPrice> pairs, std::span<const Index> buffers,
         const Deadline& deadline)
      : problem_(problem), pairs_(pairs), buffers_(buffers), words_(buffers.size() / 64 + 1) {
    const std::size_t count = buffers.size();
    between_.assign(count * count, kForNothing);
    joined_.assign(count, Bits(words_, 0));
    deadline.tick(at(problem.count()) / 8 + pairs.size());
    std::vector<Index> place(at(problem.count()), kNone);
    for (std::size_t k = 0; k < count; ++k) place[at(buffers[k])] = static_cast<Index>(k);
    for (std::size_t a = 0; a < count; ++a) {
      deadline.tick(count);
      for (std::size_t b = 0; b < a; ++b)
        if (never_share(problem, buffers[a], buffers[b])) join(a, b, kGroupsApart);
    }
    for (std::size_t p = 0; p < pairs.size(); ++p)
      if (const Index a = place[at(pairs[p].a)], b = place[at(pairs[p].b)]; a != kNone && b != kNone)
        join(at(a), at(b), static_cast<std::int32_t>(p));
  }

  // From this one; empty where it is not larger than the capacity.
  GroupApart grown(std::size_t first, double power, Bytes capacity, Chance& chance, const Deadline& deadline) const {
    std::vector<std::size_t> members{first};
    Bits left = joined_[first];
    Bytes size = problem_.size(buffers_[first]);
    for (;;) {
      std::size_t next = buffers_.size();
      double best = -1;
      for_each_bit(left, [&](Index k) {
        const double key =
            std::pow(static_cast<double>(problem_.size(buffers_[at(k)])), power) * (0.3 + chance.share());
        if (key > best) {
          best = key;
          next = at(k);
        }
      });
      deadline.tick(64);
      if (next == buffers_.size()) break;
      members.push_back(next);
      size = saturated_add(size, problem_.size(buffers_[next]));
      for (std::size_t w = 0; w < words_; ++w) left[w] &= joined_[next][w];
    }
    return size > capacity ? group(members, size - capacity) : GroupApart();
  }

 private:
  void join(std::size_t a, std::size_t b, std::int32_t what) {
    between_[a * buffers_.size() + b] = between_[b * buffers_.size() + a] = what;
    joined_[a][b / 64] |= std::uint64_t{1} << (b % 64);
    joined_[b][a / 64] |= std::uint64_t{1} << (a % 64);
  }

  GroupApart group(std::vector<std::size_t>& members, Bytes excess) const {
    std::sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) { return buffers_[a] < buffers_[b]; });
    GroupApart found;
    found.excess = excess;
    for (std::size_t a = 0; a < members.size(); ++a) {
      found.members.push_back(buffers_[members[a]]);
      for (std::size_t b = 0; b < a; ++b) {
        const std::int32_t what = between_[members[a] * buffers_.size() + members[b]];
        if (what < 0) continue;
        const Bytes bytes = std::min(problem_.size(found.members[a]), problem_.size(found.members[b]));
        found.links.push_back({at(what), a, b, bytes});
      }
    }
    return found;
  }

  const Problem& problem_;
  std::span<const PairPrice> pairs_;
  std::span<const Index> buffers_;
  std::size_t words_;
  std::vector<std::int32_t> between_;
  std::vector<Bits> joined_;
};

// What its pairs pay by themselves, about: those that save most bytes for their price share first.
double worth(const GroupApart& group, std::span<const PairPrice> pairs) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t k = 0; k < group.links.size(); ++k)
    order.emplace_back(
        static_cast<double>(group.links[k].bytes) / static_cast<double>(pairs[group.links[k].pair].price), k);
  std::sort(order.rbegin(), order.rend());
  std::vector<std::size_t> root(group.members.size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](std::size_t a) {
    while (root[a] != a) a = root[a];
    return a;
  };
  double left = static_cast<double>(group.excess), paid = 0;
  for (const auto& [saved, k] : order) {
    const std::size_t a = find(group.links[k].a), b = find(group.links[k].b);
    if (a == b) continue;
    root[a] = b;
    const double bytes = static_cast<double>(group.links[k].bytes);
    paid += static_cast<double>(pairs[group.links[k].pair].price) * std::min(1.0, left / bytes);
    left -= bytes;
    if (left <= 0) break;
  }
  return paid;
}

}  // namespace

std::vector<GroupApart> groups_apart(const Problem& problem, std::span<const PairPrice> pairs, Bytes capacity,
                                     std::uint64_t seed, const Deadline& deadline) {
  std::vector<Index> order;
  for (const Index i : by_birth(problem))
    if (problem.size(i) > 0) order.push_back(i);
  std::vector<std::pair<double, GroupApart>> found;
  std::set<std::vector<Index>> known;
  Chance chance(seed);
  const auto thin = [&](std::size_t most) {
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    if (found.size() > most) found.resize(most);
  };
  try {
    for (std::size_t begin = 0; begin < order.size(); begin += kStep) {
      const auto buffers = std::span(order).subspan(begin, std::min(kWindow, order.size() - begin));
      const Window window(problem, pairs, buffers, deadline);
      for (std::size_t k = 0; k < buffers.size() * kGrowths; ++k) {
        constexpr double kPowers[] = {1, 0.5, 0.2};
        GroupApart group =
            window.grown(k % buffers.size(), kPowers[(k / buffers.size()) % 3], capacity, chance, deadline);
        if (group.links.empty() || !known.insert(group.members).second) continue;
        const double paid = worth(group, pairs);
        found.emplace_back(paid, std::move(group));
        if (found.size() > 4 * kMostGroups) thin(2 * kMostGroups);
      }
      if (begin + kWindow >= order.size()) break;
    }
  } catch (const EndedError&) {
  }
  thin(kMostGroups);
  std::vector<GroupApart> groups;
  for (auto& [paid, group] : found) groups.push_back(std::move(group));
  return groups;
}

}  // namespace memplan
