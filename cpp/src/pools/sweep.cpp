#include "pools/sweep.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <unordered_map>

#include "pools/insertion.hpp"

namespace memplan {

namespace {

struct PoolChoice {
  std::int64_t cost = 0;
  double regret = 0;
  Index parent = kNone;  // position among all that were kept
  std::uint8_t pool = 0;
};

class Sweeping {
 public:
  Sweeping(const PoolProblems& problems, const Demand& demand, const PoolPrices& prices, std::size_t width, double most,
           const Deadline& deadline)
      : problems_(problems), demand_(demand), prices_(prices), width_(width), most_(most), deadline_(deadline) {
    found_.dropped = std::numeric_limits<double>::infinity();
  }

  Sweep run() {
    const std::size_t count = at(problems_.count());
    if (problems_.pools() > std::numeric_limits<std::uint8_t>::max()) return found_;
    std::vector<Index> order;
    for (std::size_t i = 0; i < count; ++i)
      if (!demand_.of(static_cast<Index>(i)).empty()) order.push_back(static_cast<Index>(i));
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return first(a) < first(b); });
    states_ = {{{}, 0}};
    kept_ = {{}};
    Index section = 0;
    for (const Index i : order) {
      for (; section < first(i); ++section) keep_what_fits(section);
      section = first(i) + 1;
      forget(first(i));
      branch(i);
      if (states_.empty()) return found_;
      alive_.push_back(i);
    }
    for (; section < demand_.sections(); ++section) keep_what_fits(section);
    if (!states_.empty()) trace(order);
    return found_;
  }

 private:
  struct SweepState {
    std::string pools;  // of those alive
    Index kept;         // its choice
  };

  Index first(Index i) const {
    Index first = demand_.sections();
    for (const SectionUse& use : demand_.of(i)) first = std::min(first, use.first);
    return first;
  }
  Index last(Index i) const {
    Index last = 0;
    for (const SectionUse& use : demand_.of(i)) last = std::max(last, use.last);
    return last;
  }
  Bytes used(Index i, Index section, std::size_t pool) const {
    Bytes bytes = 0;
    for (const SectionUse& use : demand_.of(i))
      if (use.first <= section && section < use.last) bytes += demand_.bytes(use, pool);
    return bytes;
  }

  void count(std::size_t work) {
    found_.work += static_cast<std::int64_t>(work);
    deadline_.tick(work);
  }

  // Buffers that are dead at a section matter no more: of states that differ in them alone, the cheapest is kept.
  void forget(Index section) {
    std::vector<std::size_t> stay;
    for (std::size_t k = 0; k < alive_.size(); ++k)
      if (last(alive_[k]) > section) stay.push_back(k);
    if (stay.size() == alive_.size()) return;
    std::unordered_map<std::string, std::size_t> position;
    std::vector<SweepState> merged;
    for (SweepState& state : states_) {
      count(1 + alive_.size());
      std::string pools;
      for (const std::size_t k : stay) pools.push_back(state.pools[k]);
      const auto [entry, is_new] = position.try_emplace(pools, merged.size());
      if (is_new) {
        merged.push_back({std::move(pools), state.kept});
      } else if (cost(state) < cost(merged[entry->second])) {
        merged[entry->second].kept = state.kept;
      }
    }
    states_ = std::move(merged);
    std::vector<Index> alive;
    for (const std::size_t k : stay) alive.push_back(alive_[k]);
    alive_ = std::move(alive);
  }

  std::int64_t cost(const SweepState& state) const { return kept_[at(state.kept)].cost; }
  double regret(const SweepState& state) const { return kept_[at(state.kept)].regret; }

  // Each state with the buffer in each pool that has room.
  void branch(Index i) {
    const std::size_t pools = problems_.pools();
    std::vector<Bytes> bytes(alive_.size() * pools), own(pools);
    for (std::size_t p = 0; p < pools; ++p) {
      own[p] = used(i, first(i), p);
      for (std::size_t k = 0; k < alive_.size(); ++k) bytes[k * pools + p] = used(alive_[k], first(i), p);
    }
    std::vector<SweepState> next;
    std::vector<Bytes> load(pools);
    for (const SweepState& state : states_) {
      count(1 + alive_.size());
      std::fill(load.begin(), load.end(), 0);
      for (std::size_t k = 0; k < alive_.size(); ++k) {
        const std::size_t p = static_cast<unsigned char>(state.pools[k]);
        load[p] += bytes[k * pools + p];
      }
      for (std::size_t p = 0; p < pools; ++p) {
        if (problems_.cost_of(i, p) == kRefused) continue;
        if (problems_.capacity(p) && load[p] + own[p] > demand_.capacity(p, first(i))) continue;
        const double lost = regret(state) + prices_.regret[at(i) * pools + p];
        if (lost >= most_) continue;
        next.push_back({state.pools, static_cast<Index>(kept_.size())});
        next.back().pools.push_back(static_cast<char>(p));
        kept_.push_back({cost(state) + problems_.cost_of(i, p), lost, state.kept, static_cast<std::uint8_t>(p)});
      }
    }
    states_ = std::move(next);
    if (states_.size() > width_) drop();
  }

  // Of a section in which nothing is born: there may be less room than before, for what is reserved.
  void keep_what_fits(Index section) {
    const std::size_t pools = problems_.pools();
    std::vector<Bytes> bytes(alive_.size() * pools), load(pools);
    for (std::size_t k = 0; k < alive_.size(); ++k)
      for (std::size_t p = 0; p < pools; ++p) bytes[k * pools + p] = used(alive_[k], section, p);
    std::erase_if(states_, [&](const SweepState& state) {
      count(1 + alive_.size());
      std::fill(load.begin(), load.end(), 0);
      bool fits = true;
      for (std::size_t k = 0; k < alive_.size(); ++k) {
        const std::size_t p = static_cast<unsigned char>(state.pools[k]);
        load[p] += bytes[k * pools + p];
        if (problems_.capacity(p)) fits &= load[p] <= demand_.capacity(p, section);
      }
      return !fits;
    });
  }

  // Those that lose most, ties by their position.
  void drop() {
    const auto less = [&](const SweepState& a, const SweepState& b) {
      return regret(a) != regret(b) ? regret(a) < regret(b) : a.kept < b.kept;
    };
    std::nth_element(states_.begin(), states_.begin() + static_cast<std::ptrdiff_t>(width_), states_.end(), less);
    for (std::size_t k = width_; k < states_.size(); ++k) found_.dropped = std::min(found_.dropped, regret(states_[k]));
    states_.resize(width_);
    std::sort(states_.begin(), states_.end(), less);
  }

  void trace(const std::vector<Index>& order) {
    const auto best = std::min_element(states_.begin(), states_.end(), [&](const SweepState& a, const SweepState& b) {
      return cost(a) != cost(b) ? cost(a) < cost(b) : a.kept < b.kept;
    });
    found_.pool.resize(at(problems_.count()));
    for (Index i = 0; i < problems_.count(); ++i)  // what has no bytes lies anywhere
      found_.pool[at(i)] = cheapest_pools(problems_, i).front();
    Index kept = best->kept;
    for (std::size_t k = order.size(); k-- > 0; kept = kept_[at(kept)].parent)
      found_.pool[at(order[k])] = kept_[at(kept)].pool;
  }

  const PoolProblems& problems_;
  const Demand& demand_;
  const PoolPrices& prices_;
  const std::size_t width_;
  const double most_;
  const Deadline& deadline_;
  std::vector<Index> alive_;
  std::vector<SweepState> states_;
  std::vector<PoolChoice> kept_;
  Sweep found_;
};

}  // namespace

Sweep sweep_pools(const PoolProblems& problems, const Demand& demand, const PoolPrices& prices, std::size_t width,
                  double most, const Deadline& deadline) {
  return Sweeping(problems, demand, prices, width, most, deadline).run();
}

}  // namespace memplan
