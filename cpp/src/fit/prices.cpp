#include "fit/prices.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/ascent.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostEnds = 40;  // stages of a unit that its dynamic program looks at
constexpr double kDear = std::numeric_limits<double>::infinity();

// The pauses of the items that an op makes: [begin, end) in the cover's.
struct GapsOfOp {
  std::size_t begin;
  std::size_t end;
  double cost;  // of the unit that makes them again; infinite where there is none
  std::size_t items;
  bool fetched;  // some of them may be
};

class UnitPricing {
 public:
  UnitPricing(const FitModel& model, const Cover& cover)
      : model_(model), cover_(cover), worth_(cover.pauses.size()), taken_(cover.pauses.size()) {
    const auto maker = [&](std::size_t g) { return model.contents.items[at(cover.pauses[g].item)].maker; };
    for (std::size_t g = 0; g < cover.pauses.size();) {
      GapsOfOp own{g, g, kDear, 0, false};
      Index item = kNone;
      for (; own.end < cover.pauses.size() && maker(own.end) == maker(g); ++own.end) {
        const Pause& pause = cover.pauses[own.end];
        own.items += pause.item != item ? 1 : 0;
        item = pause.item;
        own.fetched = own.fetched || pause.fetch != kNone;
        if (pause.unit != kNone) own.cost = model.units[at(pause.unit)].cost;
      }
      g = own.end;
      units_.push_back(own);
    }
  }

  // The bound at these prices. Afterwards `freed_` has the bytes that are away at each op.
  double bound(const std::vector<double>& price) {
    std::vector<double> sum(price.size() + 1, 0);
    double bound = 0;
    for (std::size_t k = 0; k < price.size(); ++k) {
      sum[k + 1] = sum[k] + price[k];
      bound += price[k] * static_cast<double>(cover_.too_much[k]);
    }
    for (std::size_t g = 0; g < worth_.size(); ++g) {
      const Pause& pause = cover_.pauses[g];
      worth_[g] = static_cast<double>(pause.bytes) * (sum[at(pause.last)] - sum[at(pause.first)]) +
                  static_cast<double>(pause.written_over) * price[at(pause.first) - 1];
    }
    std::fill(taken_.begin(), taken_.end(), 0.0);
    for (const GapsOfOp& own : units_) bound -= most(own);
    freed_.assign(price.size() + 1, 0);
    for (std::size_t g = 0; g < worth_.size(); ++g) {
      if (taken_[g] == 0) continue;
      const Pause& pause = cover_.pauses[g];
      const double bytes = taken_[g] * static_cast<double>(pause.bytes);
      const double over = taken_[g] * static_cast<double>(pause.written_over);
      freed_[at(pause.first) - 1] += over;
      freed_[at(pause.first)] += bytes - over;
      freed_[at(pause.last)] -= bytes;
    }
    for (std::size_t k = 1; k < freed_.size(); ++k) freed_[k] += freed_[k - 1];
    return bound;
  }

  // How the bound grows with the price of an op.
  double slope(std::size_t op) const { return static_cast<double>(cover_.too_much[op]) - freed_[op]; }

 private:
  // At least what the items of a unit gain.
  double most(const GapsOfOp& own) {
    if (!own.fetched) return own.items == 1 ? gain_apart(own, own.cost, false) : gain(own);
    if (own.items == 1 || own.cost == kDear) return gain_apart(own, own.cost, true);
    const double both = gain(own) + gain_apart(own, kDear, true);
    const auto begin = taken_.begin() + static_cast<std::ptrdiff_t>(own.begin);
    const auto end = taken_.begin() + static_cast<std::ptrdiff_t>(own.end);
    const std::vector<double> taken(begin, end);
    std::fill(begin, end, 0.0);
    const double apart = gain_apart(own, own.cost / static_cast<double>(own.items), true);
    if (apart <= both) return apart;
    std::copy(taken.begin(), taken.end(), begin);
    return both;
  }

  // Pauses of one item are apart from each other: each pays for itself, but for what moving the item out costs.
  double gain_apart(const GapsOfOp& own, double cost, bool fetched) {
    double gain = 0;
    for (std::size_t g = own.begin, end = g; g < own.end; g = end) {
      while (end < own.end && cover_.pauses[end].item == cover_.pauses[g].item) ++end;
      const double to_move = fetched ? once(cover_.pauses[g].item) : 0;
      double without = 0, with = -to_move;
      for (std::size_t i = g; i < end; ++i) {
        without += std::max(0.0, worth_[i] - again(i, cost));
        with += std::max(0.0, worth_[i] - std::min(again(i, cost), fetched ? fetch(i) : kDear));
      }
      gain += std::max(without, with);
      for (std::size_t i = g; i < end; ++i) {
        const double least = with > without && fetched ? std::min(again(i, cost), fetch(i)) : again(i, cost);
        if (worth_[i] > least) taken_[i] += 1;
      }
    }
    return gain;
  }

  double once(Index item) const {
    const Index unit = model_.fetch_of_item[at(item)];
    return unit == kNone ? 0 : model_.units[at(unit)].once;
  }
  double again(std::size_t g, double cost) const { return cover_.pauses[g].unit == kNone ? kDear : cost; }
  double fetch(std::size_t g) const {
    const Index unit = cover_.pauses[g].fetch;
    return unit == kNone ? kDear : model_.units[at(unit)].cost;
  }

  // The stages that gain most: the last ones of pauses suffice. best[i]: with the last rerun at the end of stop i.
  double gain(const GapsOfOp& own) {
    stops_.clear();
    double all = 0;
    for (std::size_t g = own.begin; g < own.end; ++g) {
      if (worth_[g] <= 0 || cover_.pauses[g].unit == kNone) continue;
      all += worth_[g];
      stops_.push_back(cover_.pauses[g].end);
    }
    if (all <= own.cost) return 0;
    std::sort(stops_.begin(), stops_.end());
    stops_.erase(std::unique(stops_.begin(), stops_.end()), stops_.end());
    if (stops_.size() > kMostEnds) return gain_apart(own, own.cost / static_cast<double>(own.items), false);
    std::vector<double> best(stops_.size());
    std::vector<std::ptrdiff_t> from(stops_.size(), -1);
    std::ptrdiff_t last = -1;
    double most = 0;
    const auto met = [&](std::ptrdiff_t before, std::size_t stop, auto&& f) {
      for (std::size_t g = own.begin; g < own.end; ++g) {
        const Pause& pause = cover_.pauses[g];
        if (worth_[g] <= 0 || pause.unit == kNone || pause.begin > stops_[stop] || pause.end < stops_[stop]) continue;
        if (before >= 0 && pause.begin <= stops_[static_cast<std::size_t>(before)]) continue;
        f(g);
      }
    };
    for (std::size_t i = 0; i < stops_.size(); ++i) {
      best[i] = -own.cost;
      met(-1, i, [&](std::size_t g) { best[i] += worth_[g]; });
      for (std::size_t j = 0; j < i; ++j) {
        double with = best[j] - own.cost;
        met(static_cast<std::ptrdiff_t>(j), i, [&](std::size_t g) { with += worth_[g]; });
        if (with <= best[i]) continue;
        best[i] = with;
        from[i] = static_cast<std::ptrdiff_t>(j);
      }
      if (best[i] <= most) continue;
      most = best[i];
      last = static_cast<std::ptrdiff_t>(i);
    }
    for (; last >= 0; last = from[static_cast<std::size_t>(last)])
      met(from[static_cast<std::size_t>(last)], static_cast<std::size_t>(last), [&](std::size_t g) { taken_[g] += 1; });
    return most;
  }

  const FitModel& model_;
  const Cover& cover_;
  std::vector<GapsOfOp> units_;
  std::vector<double> worth_;  // per pause
  std::vector<double> taken_;  // per pause
  std::vector<double> freed_;  // per op, and one more: bytes that are away
  std::vector<Index> stops_;
};

}  // namespace

Prices prices_of(const FitModel& model, const Cover& cover, double known, int rounds, const Deadline& deadline) {
  Prices best{std::vector<double>(cover.too_much.size(), 0), 0};
  if (cover.pauses.empty()) return best;
  UnitPricing pricing(model, cover);
  best.of_op = ascend(pricing, cover.too_much.size(), known, rounds, deadline);
  best.bound = std::max(0.0, pricing.bound(best.of_op));
  best.bound *= 1 - 1e-9;  // what rounding may have added
  return best;
}

}  // namespace memplan
