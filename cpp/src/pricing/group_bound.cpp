#include "pricing/group_bound.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/ascent.hpp"
#include "pricing/groups_apart.hpp"

namespace memplan {

namespace {

// Groups that share a forest's nodes, for Kruskal's rule.
class Forest {
 public:
  void clear(std::size_t nodes) {
    parent_.resize(nodes);
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  bool join(std::size_t a, std::size_t b) {
    a = root(a);
    b = root(b);
    if (a == b) return false;
    parent_[a] = b;
    return true;
  }

 private:
  std::size_t root(std::size_t a) {
    while (parent_[a] != a) a = parent_[a] = parent_[parent_[a]];
    return a;
  }

  std::vector<std::size_t> parent_;
};

// The bound as a function of its multipliers: y of each group, then u of each pair of each group. Bytes are counted in
// capacities.
class Dual {
 public:
  Dual(const std::vector<GroupApart>& groups, std::span<const PairPrice> pairs, Bytes capacity)
      : groups_(groups), pairs_(pairs), capacity_(static_cast<double>(capacity)), used_(pairs.size(), 0) {
    for (const GroupApart& group : groups) {
      start_.push_back(multipliers_);
      multipliers_ += group.links.size();
    }
    slope_.resize(groups.size() + multipliers_);
  }

  // Prices shared out evenly to the groups of a pair, and for that the best y of each group.
  std::vector<double> first() {
    std::vector<double> price(slope_.size(), 0);
    std::fill(used_.begin(), used_.end(), 0);
    for (const GroupApart& group : groups_)
      for (const GroupLink& link : group.links) used_[link.pair] += 1;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      double highest = 0;
      for (std::size_t k = 0; k < groups_[g].links.size(); ++k) {
        const GroupLink& link = groups_[g].links[k];
        double& u = price[groups_.size() + start_[g] + k];
        u = static_cast<double>(pairs_[link.pair].price) / used_[link.pair];
        highest = std::max(highest, u / bytes(link));
      }
      double low = 0, high = 2 * highest;
      for (int halves = 0; halves < 20; ++halves) {
        price[g] = (low + high) / 2;
        of_group(g, price);
        (slope_[g] > 0 ? low : high) = price[g];
      }
      price[g] = low;
    }
    return price;
  }

  double bound(const std::vector<double>& price) {
    double total = 0;
    size_ = 0;
    std::fill(used_.begin(), used_.end(), 0);
    for (std::size_t g = 0; g < groups_.size(); ++g) total += of_group(g, price);
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t k = 0; k < groups_[g].links.size(); ++k)
        used_[groups_[g].links[k].pair] += price[groups_.size() + start_[g] + k];
    for (std::size_t p = 0; p < pairs_.size(); ++p) {
      const double over = std::max(0.0, used_[p] - static_cast<double>(pairs_[p].price));
      total -= over;
      size_ += used_[p];
      used_[p] = over;
    }
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t k = 0; k < groups_[g].links.size(); ++k)
        if (used_[groups_[g].links[k].pair] > 0) slope_[groups_.size() + start_[g] + k] -= 1;
    return total;
  }
  double slope(std::size_t k) const { return slope_[k]; }

  // The bound, less what its numbers may have lost: each of them is exact to 2^-52, and sums of them to their count
  // times that.
  double safe_bound(const std::vector<double>& price) {
    const double total = bound(price);
    return total - 1e-9 * (1 + size_);
  }

 private:
  double bytes(const GroupLink& link) const { return static_cast<double>(link.bytes) / capacity_; }

  // What a group adds, and the slopes of its multipliers.
  double of_group(std::size_t g, const std::vector<double>& price) {
    const GroupApart& group = groups_[g];
    const double* u = price.data() + groups_.size() + start_[g];
    double* slope = slope_.data() + groups_.size() + start_[g];
    heavy_.clear();
    for (std::size_t k = 0; k < group.links.size(); ++k) {
      slope[k] = 0;
      if (const double weight = price[g] * bytes(group.links[k]) - u[k]; weight > 0) heavy_.emplace_back(weight, k);
    }
    std::sort(heavy_.begin(), heavy_.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    const double excess = static_cast<double>(group.excess) / capacity_;
    double total = price[g] * excess;
    size_ += total;
    slope_[g] = excess;
    forest_.clear(group.members.size());
    for (const auto& [weight, k] : heavy_) {
      if (!forest_.join(group.links[k].a, group.links[k].b)) continue;
      total -= weight;
      size_ += weight;
      slope_[g] -= bytes(group.links[k]);
      slope[k] = 1;
    }
    return total;
  }

  const std::vector<GroupApart>& groups_;
  std::span<const PairPrice> pairs_;
  double capacity_;
  std::vector<double> used_;        // per pair
  std::vector<std::size_t> start_;  // per group, of its u
  std::size_t multipliers_ = 0;
  std::vector<double> slope_;
  std::vector<std::pair<double, std::size_t>> heavy_;
  Forest forest_;
  double size_ = 0;  // of all numbers in the sum
};

}  // namespace

std::int64_t bound_by_groups(const Problem& problem, std::span<const PairPrice> pairs, Bytes capacity,
                             std::int64_t known, std::uint64_t seed, const Deadline& deadline) {
  constexpr int kRounds = 300;
  if (capacity <= 0) return 0;
  const std::vector<GroupApart> groups = groups_apart(problem, pairs, capacity, seed, deadline);
  if (groups.empty()) return 0;
  Dual dual(groups, pairs, capacity);
  const std::vector<double> first = dual.first();
  const double begun = dual.bound(first);
  const double guess = std::min(static_cast<double>(known), 2 * std::max(begun, 1.0));
  const double bound = std::max(dual.safe_bound(first), dual.safe_bound(ascend(dual, first, guess, kRounds, deadline)));
  return std::min(known, static_cast<std::int64_t>(std::ceil(std::max(0.0, bound))));
}

}  // namespace memplan
