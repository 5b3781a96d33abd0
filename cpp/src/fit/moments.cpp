#include "fit/moments.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/max_flow.hpp"

namespace memplan {

namespace {

constexpr int kMostFlows = 60;               // of an op, at most
constexpr std::size_t kMomentSegments = 16;  // of the order: of each, the op that promises most is looked at
constexpr std::size_t kMostPromising = 8;    // that promise most of all
constexpr double kFlowOfAll = 1LL << 40;     // the cost of all units, in flow
constexpr std::int64_t kFlowMost = std::int64_t{1} << 41;  // more than all of them
constexpr double kCloseMoment = 1e-4;
constexpr double kNoWay = std::numeric_limits<double>::infinity();

// What a choice of what is alive costs, and by how many bytes it is above the capacity.
struct AliveChoice {
  double cost = 0;
  double over = 0;

  double at(double price) const { return cost + price * over; }
};

// What is alive while an op runs, and what comes back after it, as a minimum cut:
//
//     source ─∞▶ items used later     item ─price x bytes▶ its unit ─cost▶ sink     unit ─∞▶ items that it reads
//
// A unit before the cut runs again. An item before the cut whose unit is behind it is alive.
class Moment {
 public:
  Moment(const FitModel& model, const Cover& cover, Index op, double total, const Deadline& deadline)
      : model_(model),
        cover_(cover),
        op_(op),
        scale_(kFlowOfAll / total),
        over_(static_cast<double>(cover.too_much[at(op)])),
        pause_of_(model.contents.items.size(), kNone),
        node_of_item_(pause_of_.size(), kNone),
        node_of_unit_(model.units.size(), kNone),
        flow_(deadline) {
    for (std::size_t g = 0; g < cover.pauses.size(); ++g)
      if (freed(cover.pauses[g]) > 0) pause_of_[at(cover.pauses[g].item)] = static_cast<Index>(g);
    for (const Index g : pause_of_) {
      if (g == kNone) continue;
      over_ -= static_cast<double>(freed(cover.pauses[at(g)]));
      starts_.push_back(node_of(cover.pauses[at(g)].item));
    }
    while (!waiting_.empty()) {
      const Index item = waiting_.back();
      waiting_.pop_back();
      add_ways(item);
    }
  }

  // The least cost of all choices at a price per byte, and such a choice.
  double least(double price, AliveChoice& choice) {
    flow_.clear();
    for (Index node = 2; node < nodes_; ++node) flow_.node();
    for (const Index node : starts_) flow_.add(MaxFlow::kSource, node, MaxFlow::kInfinite);
    for (const Held& held : held_) flow_.add(held.from, held.to, in_flow(std::min(price * held.bytes, held.fetch)));
    for (const Run& run : runs_) flow_.add(run.node, MaxFlow::kSink, in_flow(run.cost));
    for (const auto& [from, to] : reads_) flow_.add(from, to, MaxFlow::kInfinite);
    flow_.grow(std::numeric_limits<std::int64_t>::max());
    choice = {0, over_};
    for (const Run& run : runs_)
      if (flow_.is_before_cut(run.node)) choice.cost += run.cost;
    for (const Held& held : held_) {
      if (!flow_.is_before_cut(held.from) || flow_.is_before_cut(held.to)) continue;
      if (price * held.bytes < held.fetch)
        choice.over += held.bytes;
      else
        choice.cost += held.fetch;
    }
    return price * over_ + static_cast<double>(flow_.flow()) / scale_;
  }

 private:
  // An item that is alive, or else made again by the unit of node `to`, or fetched.
  struct Held {
    Index from;
    Index to;
    double bytes;
    double fetch;
  };
  struct Run {
    Index node;
    double cost;
  };

  // What is won if an item of a pause is not alive after the op.
  Bytes freed(const Pause& pause) const {
    if (pause.first <= op_ && op_ < pause.last) return pause.bytes;
    return pause.first - 1 == op_ ? pause.written_over : 0;
  }

  bool may_run_later(Index unit) const { return unit != kNone && model_.units[at(unit)].until > op_; }

  // Whether an item is there for reruns after the op, whatever is chosen.
  bool is_there(Index item) const {
    const Content& content = model_.contents.items[at(item)];
    if (content.kept || content.maker >= op_ || content.users.empty()) return true;
    return content.users.back() >= op_ && pause_of_[at(item)] == kNone;
  }

  Index node_of(Index item) {
    Index& node = node_of_item_[at(item)];
    if (node == kNone) {
      node = nodes_++;
      waiting_.push_back(item);
    }
    return node;
  }

  void add_ways(Index item) {
    const Index g = pause_of_[at(item)];
    const Pause* pause = g == kNone ? nullptr : &cover_.pauses[at(g)];
    const Index unit = pause != nullptr ? pause->unit : model_.unit_of_item[at(item)];
    const Index fetch = pause != nullptr ? pause->fetch : model_.fetch_of_item[at(item)];
    const Bytes bytes = pause != nullptr ? freed(*pause) : model_.contents.items[at(item)].bytes;
    const double cost = may_run_later(fetch) ? model_.units[at(fetch)].cost + model_.units[at(fetch)].once : kNoWay;
    const Index to = may_run_later(unit) ? node_of_run(unit) : MaxFlow::kSink;
    held_.push_back({node_of_item_[at(item)], to, static_cast<double>(bytes), cost});
  }

  Index node_of_run(Index unit) {
    Index& node = node_of_unit_[at(unit)];
    if (node != kNone) return node;
    node = nodes_++;
    runs_.push_back({node, model_.units[at(unit)].cost});
    for (const Index i : model_.units[at(unit)].needs)
      if (!is_there(i)) reads_.emplace_back(node, node_of(i));
    return node;
  }

  std::int64_t in_flow(double cost) const {
    return std::min(kFlowMost, static_cast<std::int64_t>(std::min(cost * scale_, static_cast<double>(kFlowMost))));
  }

  const FitModel& model_;
  const Cover& cover_;
  Index op_;
  double scale_;
  double over_;  // bytes above the capacity if nothing of what may be away is alive
  std::vector<Index> pause_of_, node_of_item_, node_of_unit_, waiting_;
  Index nodes_ = 2;
  std::vector<Index> starts_;
  std::vector<Held> held_;
  std::vector<Run> runs_;
  std::vector<std::pair<Index, Index>> reads_;
  MaxFlow flow_;
};

// The most over all prices: between one at which too little is freed, and one at which enough is. No more than `known`
// where that is so much already.
double most_over_prices(Moment&& moment, double over, double price, double known) {
  AliveChoice low{0, over}, choice;
  std::optional<AliveChoice> high;
  for (int round = 0; round < kMostFlows; ++round) {
    known = std::max(known, moment.least(price, choice));
    if (choice.over > 0)
      low = choice;
    else
      high = choice;
    if (!high) {
      price *= 4;
      continue;
    }
    if (low.over <= high->over) break;
    price = (high->cost - low.cost) / (low.over - high->over);
    if (low.at(price) <= known * (1 + kCloseMoment)) break;
  }
  return known;
}

// What an op promises, if reruns needed nothing: the cost of a knapsack, and the price of its last byte.
struct MomentPromise {
  Index op = 0;
  double left = 0;  // bytes
  double cost = 0;
  double price = 0;
};

std::vector<MomentPromise> promises_of(const FitModel& model, const Cover& cover) {
  std::vector<MomentPromise> all;
  for (std::size_t k = 0; k < cover.too_much.size(); ++k)
    all.push_back({static_cast<Index>(k), static_cast<double>(cover.too_much[k]), 0, 0});
  std::vector<std::pair<double, const Pause*>> rates;
  for (const Pause& pause : cover.pauses) {
    double rate = kNoWay;
    for (const Index u : {pause.unit, pause.fetch}) {
      if (u == kNone) continue;
      Bytes bytes = 0;
      for (const Index i : model.units[at(u)].items) bytes += model.contents.items[at(i)].bytes;
      rate = std::min(rate, (model.units[at(u)].cost + model.units[at(u)].once) / static_cast<double>(bytes));
    }
    if (pause.bytes > 0) rates.emplace_back(rate, &pause);
  }
  std::stable_sort(rates.begin(), rates.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [rate, pause] : rates)
    for (Index k = pause->first; k < pause->last; ++k) {
      MomentPromise& promise = all[at(k)];
      if (promise.left <= 0) continue;
      const double freed = std::min(promise.left, static_cast<double>(pause->bytes));
      promise.left -= freed;
      promise.cost += freed * rate;
      promise.price = rate;
    }
  std::erase_if(all, [&](const MomentPromise& promise) { return cover.too_much[at(promise.op)] <= 0; });
  return all;
}

// Those that promise most: of each segment, and of all.
std::vector<MomentPromise> moments_to_look_at(const std::vector<MomentPromise>& all, Index ops) {
  const auto less = [](const MomentPromise& a, const MomentPromise& b) { return a.cost < b.cost; };
  std::vector<MomentPromise> best, of_segment(kMomentSegments);
  for (const MomentPromise& promise : all) {
    MomentPromise& most = of_segment[at(promise.op) * kMomentSegments / at(ops)];
    if (most.cost < promise.cost) most = promise;
  }
  best = all;
  std::stable_sort(best.rbegin(), best.rend(), less);
  if (best.size() > kMostPromising) best.resize(kMostPromising);
  std::erase_if(of_segment, [&](const MomentPromise& promise) {
    return promise.cost == 0 ||
           std::any_of(best.begin(), best.end(), [&](const MomentPromise& other) { return other.op == promise.op; });
  });
  std::stable_sort(of_segment.rbegin(), of_segment.rend(), less);
  best.insert(best.end(), of_segment.begin(), of_segment.end());
  return best;
}

}  // namespace

double moments_bound(const FitModel& model, const Cover& cover, const Deadline& deadline) {
  double total = 0, bound = 0;
  for (const Unit& unit : model.units) total += unit.cost + unit.once;
  if (total <= 0) return 0;
  try {
    for (const MomentPromise& promise : moments_to_look_at(promises_of(model, cover), model.op_count())) {
      deadline.check();
      const double over = static_cast<double>(cover.too_much[at(promise.op)]);
      const double price = promise.price > 0 ? promise.price : total / over;
      bound = most_over_prices(Moment(model, cover, promise.op, total, deadline), over, price, bound);
    }
  } catch (const EndedError&) {  // what was proven holds
  }
  return bound * (1 - 1e-9);  // what rounding may have added
}

}  // namespace memplan
