#include "pricing/price_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "memplan/plan.hpp"
#include "search/search.hpp"

namespace memplan {

namespace {

constexpr double kHot = 1.5, kCold = 0.15;  // mean prices
constexpr std::size_t kMostOut = 10;        // buffers in a trial
constexpr double kBlink = 0.02;             // of free offsets, those that are overlooked
constexpr std::size_t kNear = 256;          // buffers born before or after that may be near
constexpr double kHopeless = 8;             // temperatures: what no trial costs more

double mean_price(std::span<const PricedPair> pairs) {
  double sum = 0;
  for (const PricedPair& pair : pairs) sum += static_cast<double>(pair.price);
  return pairs.empty() ? 1 : sum / static_cast<double>(pairs.size());
}

double as_double(std::int64_t number) { return static_cast<double>(number); }

// From one range to the other; 0 where they meet.
double distance(std::int64_t begin, std::int64_t end, std::int64_t other_begin, std::int64_t other_end) {
  return as_double(std::max<std::int64_t>({0, begin - other_end, other_begin - end}));
}

}  // namespace

PriceSearch::PriceSearch(const Problem& problem, PairRanges& ranges, std::span<const Bytes> offsets, Bytes capacity,
                         std::uint64_t seed)
    : problem_(problem),
      ranges_(ranges),
      layout_(problem, ranges, offsets),
      capacity_(capacity),
      chance_(seed),
      unit_(mean_price(ranges.pairs())),
      best_(offsets.begin(), offsets.end()),
      best_price_(ranges.paid(offsets)),
      price_(best_price_),
      is_out_(offsets.size() + 1, 1),  // the ground stays, and what is pinned
      has_moved_(offsets.size(), 0) {
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.size(i) > 0 && problem.pin(i) == kNowhere) movable_.push_back(i);
  for (const Index i : movable_) is_out_[at(i)] = 0;
}

void PriceSearch::take(std::span<const Bytes> offsets) {
  best_.assign(offsets.begin(), offsets.end());
  for (const Index i : movable_) move(i);
  best_price_ = ranges_.paid(offsets);
}

void PriceSearch::restart() {
  for (const Index i : out_) {
    is_out_[at(i)] = 0;
    move(i);
  }
  out_.clear();
  for (const Index i : moved_) {
    layout_.put(i, best_[at(i)]);
    has_moved_[at(i)] = 0;
  }
  moved_.clear();
  price_ = best_price_;
  trials_until_list_ = 0;
}

void PriceSearch::move(Index i) {
  if (has_moved_[at(i)]) return;
  has_moved_[at(i)] = 1;
  moved_.push_back(i);
}

void PriceSearch::keep(const OnBetter& better) {
  for (const Index i : moved_) {
    best_[at(i)] = layout_.offset(i);
    has_moved_[at(i)] = 0;
  }
  moved_.clear();
  best_price_ = price_;
  if (better) better();
}

// The end of a trial: what was put back stays there, or all are where they were.
void PriceSearch::settle(bool taken, const OnBetter& better) {
  for (std::size_t k = 0; k < out_.size(); ++k) {
    is_out_[at(out_[k])] = 0;
    if (taken)
      move(out_[k]);
    else
      layout_.put(out_[k], before_[k]);
  }
  out_.clear();
  if (!taken) return;
  price_ += change_;
  if (better && price_ < best_price_) keep(better);
}

bool PriceSearch::place_all(std::span<const Index> order, double weight, const Deadline& deadline) {
  for (const Index i : movable_) {
    layout_.take(i);
    move(i);
  }
  const double high = 1 / std::max(1.0, as_double(capacity_));
  for (const Index i : order) {
    const std::int64_t before = layout_.work();
    const std::span<const PricedOffset> free = layout_.free(i, capacity_);
    deadline.tick(at(layout_.work() - before));
    if (free.empty()) return false;
    const auto cost = [&](const PricedOffset& place) {
      return as_double(place.price) / unit_ * weight + as_double(place.offset) * high;
    };
    const auto best = std::min_element(free.begin(), free.end(),
                                       [&](const PricedOffset& a, const PricedOffset& b) { return cost(a) < cost(b); });
    layout_.put(i, best->offset);
  }
  return true;
}

void PriceSearch::begin_greedily(std::int64_t work, const Deadline& deadline, const OnBetter& better) {
  constexpr int kKeys = 3, kMostOrders = 24;
  const std::int64_t end = end_of_work(this->work(), work);
  std::vector<Index> order = movable_;
  std::vector<double> key(at(problem_.count()));
  for (int how = 0; how < kMostOrders && this->work() < end && best_price_ > 0; ++how) {
    for (const Index i : movable_) {
      const double size = as_double(problem_.size(i)), life = as_double(problem_.last(i) - problem_.first(i));
      const double noise = how < kKeys ? 1 : 0.7 + 0.6 * chance_.share();
      key[at(i)] = noise * (how % kKeys == 0 ? size : how % kKeys == 1 ? size * life : life);
    }
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return key[at(a)] > key[at(b)]; });
    const double weight = how % 4 == 3 ? 0 : std::pow(10, -2 + 2 * chance_.share());
    if (!place_all(order, weight, deadline)) continue;
    price_ = ranges_.paid(layout_.offsets());
    if (price_ < best_price_) keep(better);
  }
}

void PriceSearch::list_payers() {
  payers_.clear();
  for (const PricedPair& pair : ranges_.pairs())
    if (pays(pair, layout_.offsets()))
      for (const Index i : {pair.a, pair.b})
        if (problem_.pin(i) == kNowhere) payers_.push_back(i);
  const std::size_t pairs = ranges_.pairs().size();
  work_ += static_cast<std::int64_t>(pairs / 8);
  trials_until_list_ = std::max<std::size_t>(64, pairs / 16);
}

void PriceSearch::move_payers(const Deadline& deadline, const OnBetter& better) {
  restart();
  list_payers();
  for (const Index i : std::vector<Index>(payers_)) {
    const std::int64_t paid = layout_.paid_by(i), before = layout_.work();
    if (paid == 0) continue;
    layout_.take(i);
    const std::span<const PricedOffset> free = layout_.free(i, capacity_);
    const auto best =
        std::ranges::min_element(free, [](const PricedOffset& a, const PricedOffset& b) { return a.price < b.price; });
    const bool cheaper = best != free.end() && best->price < paid;
    layout_.put(i, cheaper ? best->offset : layout_.offset(i));
    if (cheaper) {
      move(i);
      price_ += best->price - paid;
      keep(better);
    }
    deadline.tick(at(layout_.work() - before));
  }
}

Index PriceSearch::who_pays() {
  if (trials_until_list_-- == 0) list_payers();
  for (int tries = 0; tries < 4 && !payers_.empty(); ++tries)
    if (const Index i = payers_[chance_.below(payers_.size())]; layout_.paid_by(i) > 0) return i;
  return movable_[chance_.below(movable_.size())];
}

void PriceSearch::add(Index i) {
  if (is_out_[at(i)]) return;
  is_out_[at(i)] = 1;
  out_.push_back(i);
}

// Those that pay to one that is out, or lie against it.
void PriceSearch::add_partners(std::size_t count) {
  constexpr int kLooks = 12;
  for (std::size_t tries = 0; tries < 4 * count && out_.size() < count; ++tries) {
    const Index i = out_[chance_.below(out_.size())];
    const std::span<const PairRange> priced = ranges_.priced(i), forbidden = ranges_.forbidden(i);
    const std::size_t all = priced.size() + forbidden.size();
    for (int look = 0; look < kLooks && all > 0; ++look) {
      const std::size_t k = chance_.below(all);
      const PairRange& range = k < priced.size() ? priced[k] : forbidden[k - priced.size()];
      if (range.other == ranges_.ground()) continue;
      const Bytes difference = layout_.offset(i) - layout_.offset(range.other);
      if (difference < range.after || difference > range.before) continue;
      add(range.other);
      break;
    }
  }
}

void PriceSearch::add_related(std::size_t count) {
  for (std::size_t tries = 0; tries < 4 * count && out_.size() < count; ++tries) {
    const Index i = out_[chance_.below(out_.size())];
    const std::span<const PairRange> priced = ranges_.priced(i), forbidden = ranges_.forbidden(i);
    if (priced.size() + forbidden.size() == 0) continue;
    const std::size_t k = chance_.below(priced.size() + forbidden.size());
    add(k < priced.size() ? priced[k].other : forbidden[k - priced.size()].other);
  }
}

// Those that are near in time and in offset.
void PriceSearch::add_near(Index first, std::size_t count) {
  const std::span<const Index> born = ranges_.by_birth();
  const std::size_t place = ranges_.birth_of(first);
  const std::size_t begin = place < kNear ? 0 : place - kNear, end = std::min(born.size(), place + kNear);
  const double steps = std::max(1.0, as_double(problem_.first(born[end - 1]) - problem_.first(born[begin])));
  const double offset_weight = (0.5 + chance_.share()) / std::max(1.0, as_double(capacity_));
  keyed_.clear();
  for (std::size_t k = begin; k < end; ++k) {
    const Index i = born[k];
    if (is_out_[at(i)]) continue;
    const double above = distance(layout_.offset(i), layout_.offset(i) + problem_.size(i), layout_.offset(first),
                                  layout_.offset(first) + problem_.size(first));
    const double apart = distance(problem_.first(i), problem_.last(i), problem_.first(first), problem_.last(first));
    keyed_.emplace_back(above * offset_weight + apart / steps + 0.05 * chance_.share(), i);
  }
  const std::size_t taken = std::min(count - 1, keyed_.size());
  std::partial_sort(keyed_.begin(), keyed_.begin() + static_cast<std::ptrdiff_t>(taken), keyed_.end());
  for (std::size_t k = 0; k < taken; ++k) add(keyed_[k].second);
  work_ += static_cast<std::int64_t>(end - begin) / 2;
}

void PriceSearch::take_out(Index first, const Deadline& deadline) {
  out_.clear();
  add(first);
  const std::size_t count = 1 + chance_.below(kMostOut);
  const std::int64_t before = work();
  switch (chance_.below(3)) {
    case 0: add_partners(count); break;
    case 1: add_related(count); break;
    default: add_near(first, count);
  }
  change_ = 0;
  before_.clear();
  for (const Index i : out_) {
    change_ -= layout_.paid_by(i);
    layout_.take(i);
    before_.push_back(layout_.offset(i));
  }
  work_ += static_cast<std::int64_t>(out_.size());
  deadline.tick(at(work() - before));
}

// False where one has no place, or where the price has risen by more than `most`.
bool PriceSearch::put_back(Bytes capacity, std::int64_t most) {
  const std::size_t rule = chance_.below(4);
  keyed_.clear();
  for (const Index i : out_) {
    const double size = as_double(problem_.size(i)), life = as_double(problem_.last(i) - problem_.first(i));
    double key = 1;
    if (rule == 1) key = size;
    if (rule == 2) key = size * life;
    if (rule == 3) key = as_double(static_cast<std::int64_t>(ranges_.priced(i).size()));
    keyed_.emplace_back(-key * (rule == 0 ? chance_.share() : 0.6 + 0.8 * chance_.share()), i);
  }
  std::sort(keyed_.begin(), keyed_.end());
  const std::size_t ties = chance_.below(3);  // to the lowest, the highest, any
  for (const auto& [key, i] : keyed_) {
    const PricedOffset* best = nullptr;
    std::size_t equal = 0;
    for (const PricedOffset& place : layout_.free(i, capacity)) {
      if (chance_.share() < kBlink) continue;
      if (best == nullptr || place.price < best->price) {
        best = &place;
        equal = 1;
      } else if (place.price == best->price && (ties == 1 || (ties == 2 && chance_.below(++equal) == 0))) {
        best = &place;
      }
    }
    if (best == nullptr) return false;
    change_ += best->price;
    if (change_ > most) return false;
    layout_.put(i, best->offset);
  }
  return true;
}

bool PriceSearch::accept(double heat) {
  return change_ <= 0 || (heat > 0 && chance_.share() < std::exp(-as_double(change_) / heat));
}

void PriceSearch::anneal(const std::function<double()>& progress, std::int64_t enough, const Deadline& deadline,
                         const OnBetter& better) {
  restart();
  double heat = unit_ * kHot;
  for (int trial = 0; best_price_ > enough && !movable_.empty(); ++trial) {
    if (trial % 16 == 0) {
      const double done = progress();
      if (done >= 1) break;
      heat = unit_ * kHot * std::pow(kCold / kHot, done);
    }
    take_out(who_pays(), deadline);
    const std::int64_t before = layout_.work();
    const bool whole = put_back(capacity_, static_cast<std::int64_t>(std::ceil(std::min(kHopeless * heat, 0x1p62))));
    deadline.tick(at(layout_.work() - before));
    settle(whole && accept(heat), better);
  }
}

// What ends at the peak goes below it, at no price. With the last of these, the peak falls.
void PriceSearch::lower_peak(Bytes enough, const Deadline& deadline, const OnBetter& better) {
  restart();
  const int most_in_vain = 200 + static_cast<int>(std::min<std::size_t>(movable_.size(), 10'000));
  Bytes peak = 0;
  std::vector<Index> highest;
  for (int in_vain = 0; in_vain < most_in_vain; ++in_vain) {
    if (highest.empty()) {
      peak = peak_of(problem_, layout_.offsets());
      if (price_ < best_price_ || peak < peak_of(problem_, best_)) keep(better);
      highest = those_that_end_at(peak);
      deadline.tick(at(problem_.count()));
      if (peak <= enough || highest.empty()) return;
      in_vain = 0;
    }
    take_out(highest.back(), deadline);
    const std::int64_t before = layout_.work();
    const bool whole = put_back(peak - 1, 0);
    deadline.tick(at(layout_.work() - before));
    settle(whole, nullptr);
    std::erase_if(highest, [&](Index i) { return layout_.offset(i) + problem_.size(i) < peak; });
  }
}

// None, where one of them is pinned.
std::vector<Index> PriceSearch::those_that_end_at(Bytes peak) const {
  std::vector<Index> found;
  for (Index i = 0; i < problem_.count(); ++i) {
    if (problem_.size(i) == 0 || layout_.offset(i) + problem_.size(i) != peak) continue;
    if (problem_.pin(i) != kNowhere) return {};
    found.push_back(i);
  }
  return found;
}

}  // namespace memplan
