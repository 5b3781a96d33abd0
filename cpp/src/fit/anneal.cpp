#include "fit/anneal.hpp"

#include <algorithm>
#include <cmath>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr double kFirstLeeway = 0.3;         // of the mean cost of a rerun: what a move may cost more, at first
constexpr double kLastLeeway = 0.005;        // the same, in the end
constexpr double kOfPrice = 1.5;             // of the prices of the bound, at first
constexpr int kLook = 200;                   // moves between two looks at the prices, ...
constexpr int kFewFit = 20, kManyFit = 100;  // ... which change unless that many of them end within the capacity
constexpr int kMostDepth = 200;              // of inputs of inputs that run again for one
constexpr int kDraws = 20;                   // of an item that may leave

}  // namespace

Anneal::Anneal(const FitModel& model, Bytes capacity, const Schedule& start, std::span<const double> price,
               const Deadline& deadline, Chance& chance)
    : model_(model), deadline_(deadline), chance_(chance), live_(model, capacity) {
  for (std::size_t i = 0; i < model.contents.items.size(); ++i) {
    const bool moves = model.unit_of_item[i] != kNone || model.fetch_of_item[i] != kNone;
    if (moves && model.contents.items[i].bytes > 0) movable_.push_back(static_cast<Index>(i));
  }
  least_price_ = start.cost() / std::max(1.0, live_.over());
  for (const Rerun& rerun : start.reruns()) toggle(rerun);
  best_ = now_;
  best_cost_ = cost_ = start.cost();
  std::vector<double> prices(at(model.op_count()), least_price_);
  for (std::size_t k = 0; k < price.size(); ++k) prices[k] += kOfPrice * price[k];
  live_.set_prices(std::move(prices));
}

Schedule Anneal::best() const {
  Schedule best(model_);
  for (const Rerun& rerun : best_) best.add(rerun);
  return best;
}

void Anneal::toggle(const Rerun& rerun) {
  const bool there = live_.schedule().contains(rerun);
  if (!there) cost_ += live_.schedule().cost_of(rerun.unit);
  live_.toggle(rerun);
  if (there) {
    cost_ -= live_.schedule().cost_of(rerun.unit);
    *std::find(now_.begin(), now_.end(), rerun) = now_.back();
    now_.pop_back();
  } else {
    now_.push_back(rerun);
  }
  toggled_.push_back(rerun);
}

void Anneal::undo() {
  for (std::size_t r = toggled_.size(); r-- > 0;) toggle(Rerun(toggled_[r]));
}

Index Anneal::way_of(Index item) {
  const Index again = model_.unit_of_item[at(item)], fetch = model_.fetch_of_item[at(item)];
  if (again == kNone || fetch == kNone) return again == kNone ? fetch : again;
  return chance_.below(2) == 0 ? again : fetch;
}

// With the inputs that are gone there; now and then one stays instead. A rerun before it that is not needed any more
// goes.
void Anneal::add(const Rerun& rerun, int depth) {
  const Unit& unit = model_.units[at(rerun.unit)];
  std::vector<Index> gone;
  for (const Index i : unit.needs)
    if (model_.contents.items[at(i)].maker != kNone && !live_.alive_before(i, rerun.stage)) gone.push_back(i);
  toggle(rerun);
  for (const Index i : gone) {
    if (cost_ > most_cost_ || depth == kMostDepth) return;
    const Rerun other{rerun.stage, way_of(i)};
    const bool may = model_.may_run_again(other.unit, other.stage) && !live_.schedule().contains(other);
    if (may && chance_.below(8) > 0) add(other, depth + 1);
  }
  for (const Index i : unit.items) remove_useless(i, rerun.stage - 1);
}

void Anneal::remove(const Rerun& rerun) {
  toggle(rerun);
  for (const Index i : model_.units[at(rerun.unit)].needs) remove_useless(i, rerun.stage);
}

// Takes away what made an item again last, up to a stage, if nothing uses that.
void Anneal::remove_useless(Index item, Index stage) {
  const std::span<const Touch> touches = live_.touches(item);
  const auto next =
      std::partition_point(touches.begin(), touches.end(), [&](const Touch& touch) { return touch.stage <= stage; });
  if (next == touches.begin()) return;
  const Index last = std::prev(next)->stage;
  for (const Index unit : {model_.unit_of_item[at(item)], model_.fetch_of_item[at(item)]}) {
    const Rerun rerun{last, unit};
    if (unit != kNone && live_.schedule().contains(rerun) && live_.is_useless(rerun)) remove(rerun);
  }
}

// An item leaves between two stages that touch it: where it is too much, as a rule, if that is somewhere.
void Anneal::add_any() {
  for (int draw = 0; draw < kDraws; ++draw) {
    const Index item = movable_[chance_.below(movable_.size())];
    const std::span<const Touch> touches = live_.touches(item);
    if (touches.size() < 2) continue;
    const std::size_t e = 1 + chance_.below(touches.size() - 1);
    const Index begin = touches[e - 1].stage + 1, end = touches[e].stage;
    if (!touches[e].in || begin == end) continue;
    if (!live_.fits() && 4 * draw < 3 * kDraws && chance_.below(4) > 0) {
      const std::size_t some = chance_.below(static_cast<std::size_t>(end - begin));
      if (!live_.is_over(begin + static_cast<Index>(some))) continue;
    }
    const Rerun rerun{end, way_of(item)};
    if (model_.may_run_again(rerun.unit, end) && !live_.schedule().contains(rerun)) return add(rerun, 0);
  }
}

// To the stage before or after it that touches what it makes or needs.
void Anneal::shift(const Rerun& rerun) {
  const Unit& unit = model_.units[at(rerun.unit)];
  const std::vector<Index>& items = !unit.needs.empty() && chance_.below(2) == 0 ? unit.needs : unit.items;
  const std::span<const Touch> touches = live_.touches(items[chance_.below(items.size())]);
  const auto place = std::partition_point(touches.begin(), touches.end(),
                                          [&](const Touch& touch) { return touch.stage < rerun.stage; });
  Index to = kNone;
  if (chance_.below(2) == 0) {
    if (place != touches.begin()) to = std::prev(place)->stage;
  } else {
    const auto next = std::find_if(place, touches.end(), [&](const Touch& touch) { return touch.stage > rerun.stage; });
    if (next != touches.end()) to = next->stage;
  }
  if (to == kNone || !model_.may_run_again(rerun.unit, to) || live_.schedule().contains({to, rerun.unit})) return;
  remove(rerun);
  add({to, rerun.unit}, 0);
}

void Anneal::move() {
  const std::size_t kind = chance_.below(100);
  if (now_.empty() || kind < (live_.fits() ? 20 : 55)) return add_any();
  const Rerun rerun = now_[chance_.below(now_.size())];
  if (kind >= 70 && kind < 85) return shift(rerun);
  remove(rerun);
  if (kind >= 85) add_any();
}

void Anneal::keep_if_best() {
  if (!live_.fits() || cost_ >= best_cost_ * (1 - 1e-12)) return;
  best_ = now_;
  best_cost_ = cost_ = live_.schedule().cost();
}

void Anneal::adapt_prices(int fitting) {
  if (kFewFit < fitting && fitting <= kManyFit) return;
  std::vector<double> prices = live_.prices();
  for (std::size_t k = 0; k < prices.size(); ++k) {
    if (fitting > kManyFit)
      prices[k] /= 1.1;
    else if (live_.is_over(static_cast<Index>(k)))
      prices[k] = 1.3 * prices[k] + least_price_;
  }
  live_.set_prices(std::move(prices));
}

bool Anneal::run(double enough, std::int64_t& work) {
  const auto given = static_cast<double>(work);
  const double mean = best_cost_ / static_cast<double>(std::max<std::size_t>(1, now_.size()));
  int moves = 0, fitting = 0;
  try {
    while (work > 0 && best_cost_ > enough && !movable_.empty()) {
      const std::int64_t before = live_.work();
      const double leeway =
          mean * kFirstLeeway * std::pow(kLastLeeway / kFirstLeeway, 1 - static_cast<double>(work) / given);
      const double cost = cost_;
      most_cost_ = cost + live_.over() - leeway * std::log(chance_.share() + 1e-300);
      toggled_.clear();
      move();
      if (cost_ + live_.over() <= most_cost_) {
        keep_if_best();
      } else {
        undo();
        cost_ = cost;
      }
      fitting += live_.fits() ? 1 : 0;
      if (++moves % kLook == 0) adapt_prices(std::exchange(fitting, 0));
      const std::int64_t done = 2 * (live_.work() - before) + 40;
      work -= done;
      deadline_.tick(static_cast<std::size_t>(done));
    }
  } catch (const EndedError&) {
    return false;
  }
  return true;
}

}  // namespace memplan
