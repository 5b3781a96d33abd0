#include "pools/assignment.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "pools/exchange.hpp"
#include "pools/insertion.hpp"
#include "pools/sweep.hpp"

namespace memplan {

namespace {

constexpr int kPriceRounds = 300;            // of prices
constexpr Index kMostCompared = 16;          // buffers whose plans of equal cost are compared
constexpr Index kMostMasked = 64;            // buffers, where sets that cannot be placed are remembered
constexpr std::size_t kMostRefuted = 1000;   // sets of a pool
constexpr std::int64_t kExchanged = 20'000;  // of work for each group
constexpr int kMostMended = 64;              // plans of the tree
constexpr int kMostSpared = 16;              // times that bytes are spared
constexpr Bytes kSparedPart = 64;            // of a capacity

class AssignmentSearch {
 public:
  AssignmentSearch(const PoolProblems& problems, const Demand& demand, PoolPlacer& placer, std::int64_t work,
                   const Deadline& deadline)
      : problems_(problems), demand_(demand), placer_(placer), deadline_(deadline), left_(work) {
    load_.resize(problems.pools());
    for (std::size_t p = 0; p < load_.size(); ++p) {
      if (problems.capacity(p)) load_[p].assign(at(demand.sections()), 0);
      for (Index i = 0; i < problems.count(); ++i)
        divisor_ = std::gcd(divisor_, std::max<std::int64_t>(problems.cost_of(i, p), 0));
    }
    divisor_ = std::max<std::int64_t>(divisor_, 1);
  }

  Assignment run() {
    in_time([&] {
      begin();
      deadline_.check();
      price();
      deadline_.check();
      sweep();
      tree();
      if (is_proven() && !best_.pool.empty()) compare();
    });
    best_.bound = std::min(bound_, best_.cost);
    return std::move(best_);
  }

 private:
  using Position = std::size_t;  // in order_

  void begin() {
    order_.resize(at(problems_.count()));
    std::iota(order_.begin(), order_.end(), 0);
    std::vector<double> worth(order_.size());
    for (Index i = 0; i < problems_.count(); ++i) {
      const std::vector<Index> pools = cheapest_pools(problems_, i);
      double area = 1;
      for (const SectionUse& use : demand_.of(i))
        area += static_cast<double>(use.bytes) * static_cast<double>(use.last - use.first);
      const bool only = pools.size() < 2;
      worth[at(i)] =
          only ? std::numeric_limits<double>::infinity()
               : static_cast<double>(problems_.cost_of(i, at(pools[1])) - problems_.cost_of(i, at(pools[0]))) / area;
    }
    sort_by(worth);
    offer(insert_in_order(problems_, order_, {}, {}, deadline_));
    deadline_.check();
    const std::vector<Index> by_worth = order_;
    std::stable_sort(order_.begin(), order_.end(),
                     [&](Index a, Index b) { return problems_.in(0).size(a) > problems_.in(0).size(b); });
    offer(insert_in_order(problems_, order_, {}, {}, deadline_));
    order_ = by_worth;
  }

  // Most first, then by index.
  void sort_by(const std::vector<double>& worth) {
    std::stable_sort(order_.begin(), order_.end(), [&](Index a, Index b) { return worth[at(a)] > worth[at(b)]; });
  }

  void price() {
    double most = 0;
    for (Index i = 0; i < problems_.count(); ++i)
      most += static_cast<double>(problems_.cost_of(i, at(cheapest_pools(problems_, i).back())));
    const double known = best_.pool.empty() ? most : static_cast<double>(best_.cost);
    prices_ = pool_prices(problems_, demand_, std::max(known, 1.0), kPriceRounds, deadline_);
    bound_ = rounded_up(0);
    const std::size_t pools = problems_.pools();
    std::vector<double> second(order_.size());
    choices_.resize(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const double* regret = prices_.regret.data() + i * pools;
      choices_[i] = cheapest_pools(problems_, static_cast<Index>(i));
      std::stable_sort(choices_[i].begin(), choices_[i].end(),
                       [&](Index a, Index b) { return regret[at(a)] < regret[at(b)]; });
      second[i] = choices_[i].size() < 2 ? std::numeric_limits<double>::infinity() : regret[at(choices_[i][1])];
    }
    sort_by(second);
    offer(insert_in_order(problems_, order_, {}, {}, deadline_));
  }

  // The least cost of a plan whose buffers lose that much.
  std::int64_t rounded_up(double regret) const {
    const double bound = prices_.bound + regret - prices_.rounding;
    if (bound >= 9e18) return kNoCost - 1;
    const auto whole = static_cast<std::int64_t>(std::ceil(std::max(0.0, bound)));
    return (whole + divisor_ - 1) / divisor_ * divisor_;
  }

  void offer(Assignment found) {
    if (found.pool.empty() || found.cost >= best_.cost) return;
    best_ = std::move(found);
  }

  bool is_proven() const { return bound_ >= best_.cost; }

  // The least that loads allow; where that cannot be placed, less in the sections of what is left over.
  void sweep() {
    if (is_proven()) return;
    const double most = best_.pool.empty() ? std::numeric_limits<double>::infinity()
                                           : static_cast<double>(best_.cost) - prices_.bound + 2 * prices_.rounding;
    const Sweep found = sweep_pools(problems_, demand_, prices_, width(), most, deadline_);
    left_ -= found.work;
    raise_bound(found);
    pool_ = found.pool.empty() ? best_.pool : found.pool;
    Spared spared(load_.size(), std::vector<Bytes>(at(demand_.sections()), 0));
    Bytes part = kSparedPart;
    for (int round = 0; round < kMostSpared && !pool_.empty() && !is_proven() && left_ > placer_.work(); ++round) {
      const std::int64_t given = kExchanged * std::min<Index>(problems_.count(), 1000);
      std::int64_t work = given;
      pool_ = exchange_pools(problems_, demand_, prices_, spared, std::move(pool_), bound_, work, deadline_);
      left_ -= given - work;
      if (pool_.empty()) break;
      if (leaf()) {
        if (!halve(spared)) break;
        pool_ = best_.pool;
        part *= 2;
      } else {
        spare(spared, part);
      }
    }
  }

  // Less of what is spared; false if nothing is.
  static bool halve(Spared& spared) {
    Bytes most = 0;
    for (std::vector<Bytes>& of_pool : spared)
      for (Bytes& bytes : of_pool) most = std::max(most, bytes /= 2);
    return most > 0;
  }

  // More bytes where the groups live that the last placement left above a capacity.
  void spare(Spared& spared, Bytes part) const {
    Spared more(spared.size(), std::vector<Bytes>(at(demand_.sections()), 0));
    for (const Index i : above_) {
      const std::size_t p = at(pool_[at(i)]);
      for (const SectionUse& use : demand_.of(i))
        for (Index s = use.first; s < use.last; ++s) more[p][at(s)] = *problems_.capacity(p) / part;
    }
    for (std::size_t p = 0; p < spared.size(); ++p)
      for (std::size_t s = 0; s < more[p].size(); ++s) spared[p][s] += more[p][s];
  }

  // So that a sweep takes a part of the work.
  std::size_t width() const {
    constexpr std::int64_t kMost = 1 << 14, kLeast = 16, kPart = 10;
    std::int64_t lives = 0;
    for (Index i = 0; i < problems_.count(); ++i)
      for (const SectionUse& use : demand_.of(i)) lives += use.last - use.first;
    const std::int64_t alive = 4 + lives / std::max<Index>(1, demand_.sections());
    return at(std::clamp(left_ / (kPart * alive * std::max<Index>(1, problems_.count())), kLeast, kMost));
  }

  // Whatever is not found costs what the sweep found, or what it has dropped, or as much as the best plan.
  void raise_bound(const Sweep& found) {
    std::int64_t cost = best_.cost;
    if (!found.pool.empty()) {
      cost = 0;
      for (std::size_t i = 0; i < found.pool.size(); ++i)
        cost += problems_.cost_of(static_cast<Index>(i), at(found.pool[i]));
    }
    if (found.dropped < std::numeric_limits<double>::infinity()) cost = std::min(cost, rounded_up(found.dropped));
    bound_ = std::max(bound_, std::min(cost, best_.cost));
  }

  // Puts a buffer into a pool if its load allows it.
  bool put(Index i, std::size_t pool) {
    if (problems_.capacity(pool)) {
      bool fits = true;
      for (const SectionUse& use : demand_.of(i))
        for (Index s = use.first; s < use.last; ++s)
          fits &= (load_[pool][at(s)] += demand_.bytes(use, pool)) <= demand_.capacity(pool, s);
      count(i);
      if (!fits) {
        unload(i, pool);
        return false;
      }
    }
    pool_[at(i)] = static_cast<Index>(pool);
    return true;
  }

  void take(Index i) {
    unload(i, at(pool_[at(i)]));
    pool_[at(i)] = kNone;
  }

  void unload(Index i, std::size_t pool) {
    if (!problems_.capacity(pool)) return;
    for (const SectionUse& use : demand_.of(i))
      for (Index s = use.first; s < use.last; ++s) load_[pool][at(s)] -= demand_.bytes(use, pool);
  }

  void count(Index i) {
    std::int64_t work = 1;
    for (const SectionUse& use : demand_.of(i)) work += use.last - use.first;
    left_ -= work;
    deadline_.tick(at(work));
  }

  // All choices that could be better; what is left open when the work is spent counts into the bound.
  void tree() {
    if (is_proven()) return;
    open_ = kNoCost;
    walk();
    bound_ = std::max(bound_, open_);
  }

  void walk() {
    const Position count = order_.size();
    pool_.assign(count, kNone);
    mask_.assign(problems_.pools(), 0);
    std::vector<double> regret(count + 1, 0);
    std::vector<std::size_t> next(count + 1, 0);
    for (Position d = 0;;) {
      if (left_ - placer_.work() <= 0) break;
      if (d < count && enter(d, regret, next[d])) {
        next[++d] = 0;
        continue;
      }
      if (d == count) leaf();
      if (d == 0) return;
      leave(order_[--d]);
    }
    Position depth = 0;
    for (; depth < count && pool_[at(order_[depth])] != kNone; ++depth) note_open(depth, regret, next);
    if (depth == count) {
      open_ = std::min(open_, rounded_up(regret[count]));
    } else {
      note_open(depth, regret, next);
    }
    open_ = std::max(open_, bound_);
    while (depth > 0) leave(order_[--depth]);
  }

  // What has not been tried at a depth.
  void note_open(Position d, const std::vector<double>& regret, const std::vector<std::size_t>& next) {
    const Index i = order_[d];
    if (next[d] < choices_[at(i)].size()) open_ = std::min(open_, rounded_up(regret[d] + regret_of(i, next[d])));
  }

  double regret_of(Index i, std::size_t choice) const {
    return prices_.regret[at(i) * problems_.pools() + at(choices_[at(i)][choice])];
  }

  // Puts the buffer at a depth into the next pool that may give a better plan, if there is one.
  bool enter(Position d, std::vector<double>& regret, std::size_t& next) {
    const Index i = order_[d];
    for (; next < choices_[at(i)].size(); ++next) {
      const double so_far = regret[d] + regret_of(i, next);
      if (is_cut(rounded_up(so_far))) {
        next = choices_[at(i)].size();
        return false;
      }
      const std::size_t pool = at(choices_[at(i)][next]);
      if (!put(i, pool)) continue;
      if (order_.size() <= kMostMasked) mask_[pool] |= std::uint64_t{1} << at(i);
      if (!is_refuted(pool)) {
        regret[d + 1] = so_far;
        ++next;
        return true;
      }
      leave(i);
    }
    return false;
  }

  bool is_cut(std::int64_t cost) const { return comparing_ ? cost > best_.cost : cost >= best_.cost; }

  void leave(Index i) {
    if (order_.size() <= kMostMasked) mask_[at(pool_[at(i)])] &= ~(std::uint64_t{1} << at(i));
    take(i);
  }

  bool is_refuted(std::size_t pool) {
    const auto found = refuted_.find(pool);
    if (found == refuted_.end()) return false;
    left_ -= static_cast<std::int64_t>(found->second.size());
    return std::any_of(found->second.begin(), found->second.end(),
                       [&](std::uint64_t set) { return (mask_[pool] & set) == set; });
  }

  // Remembers a set of buffers that cannot be placed, without those that do not matter.
  void refute(std::size_t pool, std::vector<Index> buffers) {
    if (mask_.empty() || order_.size() > kMostMasked || refuted_[pool].size() >= kMostRefuted) return;
    const Bytes capacity = *problems_.capacity(pool);
    for (std::size_t k = buffers.size(); k-- > 0;) {
      std::vector<Index> others = buffers;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
      if (placer_.place(others, pool, capacity).bound > capacity) buffers = std::move(others);
    }
    std::uint64_t set = 0;
    for (const Index i : buffers) set |= std::uint64_t{1} << at(i);
    refuted_[pool].push_back(set);
  }

  std::vector<Index> members(std::size_t pool) const {
    std::vector<Index> buffers;
    for (std::size_t i = 0; i < pool_.size(); ++i)
      if (at(pool_[i]) == pool) buffers.push_back(static_cast<Index>(i));
    return buffers;
  }

  // Every buffer has a pool: places them. True if that is a plan.
  bool leaf() {
    left_ -= static_cast<std::int64_t>(pool_.size());
    deadline_.tick(pool_.size());
    Assignment found;
    found.pool = pool_;
    found.offset.assign(pool_.size(), 0);
    found.cost = 0;
    for (std::size_t i = 0; i < pool_.size(); ++i) found.cost += problems_.cost_of(static_cast<Index>(i), at(pool_[i]));
    if (is_cut(found.cost)) return true;
    std::vector<char> kept(pool_.size(), 0);
    above_.clear();
    bool placed = true, possible = true;
    for (std::size_t p = 0; p < problems_.pools() && possible; ++p)
      if (problems_.capacity(p)) placed &= place(p, found, kept, possible);
    if (placed) {
      if (!comparing_ || lower_peaks(found)) best_ = std::move(found);
      return true;
    }
    if (possible) open_ = std::min(open_, found.cost);
    if (possible || mended_ < kMostMended) mend(found, kept);
    return false;
  }

  // Whether what lies in a pool fits; `kept` are those that do.
  bool place(std::size_t p, Assignment& found, std::vector<char>& kept, bool& possible) {
    const std::vector<Index> buffers = members(p);
    const Bytes capacity = *problems_.capacity(p);
    const PoolAnswer& answer = placer_.place(buffers, p, capacity);
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      found.offset[at(buffers[k])] = answer.offsets[k];
      kept[at(buffers[k])] = answer.offsets[k] <= capacity - problems_.in(p).size(buffers[k]);
      if (!kept[at(buffers[k])]) above_.push_back(buffers[k]);
    }
    if (answer.peak <= capacity) return true;
    possible = answer.bound <= capacity;
    if (!possible) refute(p, buffers);
    return false;
  }

  void mend(const Assignment& found, const std::vector<char>& kept) {
    ++mended_;
    offer(insert_in_order(problems_, order_, found, kept, deadline_));
  }

  // Of the plans of the least cost, one in which the pools without a capacity peak as low as can be.
  void compare() {
    bool limited = true;
    for (std::size_t p = 0; p < problems_.pools(); ++p) limited &= problems_.capacity(p).has_value();
    if (order_.size() > kMostCompared || limited) return;
    pool_ = best_.pool;
    Assignment found = best_;
    lower_peaks(found);
    best_ = std::move(found);
    comparing_ = true;
    walk();
  }

  // Whether the pools without a capacity peak lower than those of the best plan so far.
  bool lower_peaks(Assignment& found) {
    found.peaks = 0;
    for (std::size_t p = 0; p < problems_.pools(); ++p) {
      if (problems_.capacity(p)) continue;
      found.peaks += placer_.place(members(p), p, 0).peak;
      if (found.peaks >= best_.peaks) return false;
    }
    return true;
  }

  const PoolProblems& problems_;
  const Demand& demand_;
  PoolPlacer& placer_;
  const Deadline& deadline_;
  std::int64_t left_;
  std::int64_t divisor_ = 0;  // of all costs
  PoolPrices prices_;
  std::vector<Index> order_;                                   // of decisions
  std::vector<std::vector<Index>> choices_;                    // per buffer: pools, those with the least regret first
  std::vector<Index> pool_;                                    // per buffer, kNone where it is open
  std::vector<std::vector<Bytes>> load_;                       // per pool and section
  std::vector<std::uint64_t> mask_;                            // per pool: what lies in it
  std::map<std::size_t, std::vector<std::uint64_t>> refuted_;  // per pool: sets that cannot be placed
  std::int64_t bound_ = 0;
  std::int64_t open_ = kNoCost;  // the least cost that what was left open may have
  int mended_ = 0;
  std::vector<Index> above_;  // what the last placement left above the capacity of its pool
  bool comparing_ = false;
  Assignment best_;
};

}  // namespace

Assignment search_assignment(const PoolProblems& problems, const Demand& demand, PoolPlacer& placer, std::int64_t work,
                             const Deadline& deadline) {
  return AssignmentSearch(problems, demand, placer, work, deadline).run();
}

}  // namespace memplan
