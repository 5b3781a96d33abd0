#include "pools/exchange.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/chance.hpp"
#include "pools/insertion.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostTaken = 12;    // groups that leave at once
constexpr std::size_t kMostMoments = 3;   // besides the first, at which others are looked for
constexpr std::size_t kMostOffered = 60;  // groups that go back
constexpr double kOrderNoise = 0.7;       // of the order
constexpr double kWorse = 0.002;          // that is kept, at most

class PoolExchange {
 public:
  PoolExchange(const PoolProblems& problems, const Demand& demand, const PoolPrices& prices, const Spared& spared,
               std::vector<Index> start)
      : problems_(problems), demand_(demand), pool_(std::move(start)), alive_(at(demand.sections())) {
    const std::size_t pools = problems.pools();
    free_.resize(pools);
    for (std::size_t p = 0; p < pools; ++p)
      for (Index s = 0; problems.capacity(p) && s < demand.sections(); ++s)
        free_[p].push_back(demand.capacity(p, s) - spared[p][at(s)]);
    for (Index i = 0; i < problems.count(); ++i) {
      choices_.push_back(cheapest_pools(problems, i));
      const std::vector<Index>& choices = choices_.back();
      cost_ += problems.cost_of(i, at(pool_[at(i)]));
      change(i, at(pool_[at(i)]), -1);
      worth_.push_back(0);
      if (choices.size() < 2) continue;
      const std::size_t first = at(i) * pools + at(choices[0]);
      const auto lost = static_cast<double>(problems.cost_of(i, at(choices[1])) - problems.cost_of(i, at(choices[0])));
      const double taken = prices.reduced[first] - static_cast<double>(problems.cost_of(i, at(choices[0])));
      worth_.back() = lost / (std::max(taken, 0.0) + 1e-9 * lost + 1e-300);
      for (const SectionUse& use : demand.of(i))
        for (Index s = use.first; s < use.last; ++s) alive_[at(s)].push_back(i);
    }
    for (Index s = 0; s < demand.sections(); ++s)
      if (alive_[at(s)].size() > 1) moments_.push_back(s);
  }

  // Where loads do not fit, the groups that lose least go elsewhere. False where one cannot.
  bool make_fit() {
    for (std::size_t p = 0; p < free_.size(); ++p)
      for (std::size_t s = 0; s < free_[p].size(); ++s) {
        if (free_[p][s] >= 0) continue;
        std::vector<std::pair<double, Index>> order;
        for (const Index i : alive_[s])
          if (at(pool_[at(i)]) == p) order.emplace_back(worth_[at(i)], i);
        std::sort(order.begin(), order.end());
        for (std::size_t k = 0; k < order.size() && free_[p][s] < 0; ++k) {
          const Index i = order[k].second;
          put(i, kNone);
          offered_.push_back(i);
        }
        if (free_[p][s] < 0) return false;
      }
    const bool fits = recreate();
    changed_.clear();
    return fits;
  }

  std::vector<Index> run(std::int64_t enough, std::int64_t& work, const Deadline& deadline) {
    std::vector<Index> best = pool_;
    std::int64_t best_cost = cost_;
    try {
      while (work > 0 && !moments_.empty() && best_cost > enough) {
        const std::int64_t before = cost_;
        work_ = 50;
        ruin();
        const double limit = static_cast<double>(best_cost) * (1 + kWorse * chance_.share() * chance_.share());
        if (!recreate() || (cost_ > before && static_cast<double>(cost_) > limit)) undo();
        changed_.clear();
        if (cost_ < best_cost) {
          best_cost = cost_;
          best = pool_;
        }
        work -= work_;
        deadline.tick(at(work_));
      }
    } catch (const EndedError&) {
    }
    return best;
  }

 private:
  void change(Index i, std::size_t pool, Bytes sign) {
    if (!problems_.capacity(pool)) return;
    for (const SectionUse& use : demand_.of(i)) {
      const Bytes bytes = sign * demand_.bytes(use, pool);
      for (Index s = use.first; s < use.last; ++s) free_[pool][at(s)] += bytes;
      work_ += use.last - use.first;
    }
  }

  bool has_room(Index i, std::size_t pool) {
    if (!problems_.capacity(pool)) return true;
    for (const SectionUse& use : demand_.of(i)) {
      const Bytes bytes = demand_.bytes(use, pool);
      for (Index s = use.first; s < use.last; ++s) {
        ++work_;
        if (free_[pool][at(s)] < bytes) return false;
      }
    }
    return true;
  }

  void move(Index i, Index pool) {
    changed_.emplace_back(i, pool_[at(i)]);
    put(i, pool);
  }

  void put(Index i, Index pool) {
    if (pool_[at(i)] != kNone) {
      change(i, at(pool_[at(i)]), 1);
      cost_ -= problems_.cost_of(i, at(pool_[at(i)]));
    }
    pool_[at(i)] = pool;
    if (pool == kNone) return;
    change(i, at(pool), -1);
    cost_ += problems_.cost_of(i, at(pool));
  }

  void undo() {
    for (; !changed_.empty(); changed_.pop_back()) put(changed_.back().first, changed_.back().second);
  }

  // Some of those alive at a moment leave; others that would rather lie elsewhere are offered room too.
  void ruin() {
    offered_.clear();
    const Index moment = moments_[chance_.below(moments_.size())];
    const std::vector<Index>& alive = alive_[at(moment)];
    const std::size_t count = 1 + chance_.below(std::min(kMostTaken, alive.size()));
    Index begin = moment, end = moment + 1;
    for (std::size_t k = 0; k < count; ++k) {
      const Index i = alive[chance_.below(alive.size())];
      if (pool_[at(i)] == kNone || !problems_.capacity(at(pool_[at(i)]))) continue;
      move(i, kNone);
      offered_.push_back(i);
      for (const SectionUse& use : demand_.of(i)) {
        begin = std::min(begin, use.first);
        end = std::max(end, use.last);
      }
    }
    offer(moment);
    for (std::size_t k = 0; k < kMostMoments; ++k) offer(begin + static_cast<Index>(chance_.below(at(end - begin))));
  }

  void offer(Index moment) {
    const std::vector<Index>& alive = alive_[at(moment)];
    if (alive.empty()) return;
    std::size_t k = chance_.below(alive.size());  // a different part of many
    for (std::size_t n = 0; n < alive.size() && offered_.size() < kMostOffered; ++n, k = (k + 1) % alive.size()) {
      const Index i = alive[k];
      ++work_;
      if (pool_[at(i)] == kNone || pool_[at(i)] == choices_[at(i)].front()) continue;
      if (std::find(offered_.begin(), offered_.end(), i) == offered_.end()) offered_.push_back(i);
    }
  }

  // Each into the cheapest pool with room: those that lose most for what they take first. False where there is none.
  bool recreate() {
    order_.clear();
    const double noise = kOrderNoise * chance_.share();
    for (const Index i : offered_) order_.emplace_back(-worth_[at(i)] * std::exp(noise * (2 * chance_.share() - 1)), i);
    std::sort(order_.begin(), order_.end());
    return std::all_of(order_.begin(), order_.end(), [&](const auto& next) { return settle(next.second); });
  }

  bool settle(Index i) {
    for (const Index pool : choices_[at(i)]) {
      if (pool == pool_[at(i)]) return true;
      if (!has_room(i, at(pool))) continue;
      move(i, pool);
      return true;
    }
    return false;
  }

  const PoolProblems& problems_;
  const Demand& demand_;
  std::vector<Index> pool_;
  std::vector<std::vector<Index>> choices_;       // per group, the cheapest first
  std::vector<double> worth_;                     // per group
  std::vector<std::vector<Index>> alive_;         // per section: groups with a choice
  std::vector<Index> moments_;                    // sections with some
  std::vector<std::vector<Bytes>> free_;          // per pool and section
  std::vector<Index> offered_;                    // what goes back
  std::vector<std::pair<double, Index>> order_;   // in this order
  std::vector<std::pair<Index, Index>> changed_;  // a group, and the pool in which it was
  std::int64_t cost_ = 0, work_ = 0;
  Chance chance_{1};
};

}  // namespace

std::vector<Index> exchange_pools(const PoolProblems& problems, const Demand& demand, const PoolPrices& prices,
                                  const Spared& spared, std::vector<Index> start, std::int64_t enough,
                                  std::int64_t& work, const Deadline& deadline) {
  PoolExchange exchange(problems, demand, prices, spared, std::move(start));
  if (!exchange.make_fit()) return {};
  return exchange.run(enough, work, deadline);
}

}  // namespace memplan
