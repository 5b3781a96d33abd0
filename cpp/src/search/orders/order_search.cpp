#include "search/orders/order_search.hpp"

#include <algorithm>
#include <utility>

#include "memplan/plan.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr std::size_t kStartingOrders = 4;
constexpr std::int64_t kLooksPerWork = 4;
constexpr std::int64_t kQuietPerBuffer = 40;  // changes without a better peak, before it begins again
constexpr std::size_t kSwapsInEight = 5;      // the others bring a buffer forward

}  // namespace

OrderSearch::OrderSearch(const Problem& problem, std::uint64_t seed, const Deadline& deadline)
    : problem_(problem),
      words_(problem.size().size() / 64 + 1),
      rows_(problem.size().size() * words_, 0),
      weight_(problem.size().size(), 0),
      chance_(seed),
      position_(problem.size().size(), 0) {
  const std::vector<Index> buffers = with_bytes(problem);
  for (const Index a : buffers) {
    deadline.tick(buffers.size());
    weight_[at(a)] = problem.size(a);
    for (const Index b : buffers) {
      if (a == b || !problem.conflict(a, b)) continue;
      rows_[at(a) * words_ + at(b) / 64] |= std::uint64_t{1} << (at(b) % 64);
      weight_[at(a)] += problem.size(b);
    }
  }
}

// The orders to begin with, and then what the best plan has lowest first.
OrderSearch::Order OrderSearch::order_of(std::size_t start, std::span<const Bytes> best) const {
  Order order = with_bytes(problem_);
  const auto key = [&](Index i) {
    switch (start) {
      case 0: return std::pair{best[at(i)], -problem_.size(i)};
      case 1: return std::pair{-weight_[at(i)], -problem_.size(i)};
      case 2: return std::pair{-problem_.size(i), -weight_[at(i)]};
      case 3: return std::pair{problem_.first(i), -problem_.size(i)};
      default: return std::pair{best[at(i)], -problem_.size(i)};
    }
  };
  std::sort(order.begin(), order.end(), [&](Index a, Index b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
  return order;
}

bool OrderSearch::step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) {
  const std::int64_t end = end_of_work(work_, work);
  if (best.peak < best_peak_) {
    best_.assign(best.offsets.begin(), best.offsets.end());
    best_peak_ = best.peak;
  }
  const auto patience = kQuietPerBuffer * std::max<std::int64_t>(problem_.count(), 50);
  while (best_peak_ > enough && work_ < end && !deadline.passed()) {
    if (!active_ || quiet_ > patience) begin(order_of(starts_++ % (2 * kStartingOrders), best_), deadline);
    change(deadline);
  }
  return best_peak_ < best.peak;
}

void OrderSearch::begin(Order order, const Deadline& deadline) {
  trial_ = std::move(order);
  placed_.clear();
  for (std::size_t p = 0; p < trial_.size(); ++p) position_[at(trial_[p])] = p;
  place(0, kMaxBytes, deadline);
  order_ = trial_;
  std::swap(placed_, tried_);
  peak_ = tried_peak_;
  before_.fill(peak_);
  quiet_ = 0;
  active_ = true;
  keep();
}

void OrderSearch::keep() {
  if (peak_ >= best_peak_) return;
  best_peak_ = peak_;
  quiet_ = 0;
  best_.assign(problem_.size().size(), 0);
  for (const Placed& one : placed_) best_[at(one.buffer)] = one.begin;
}

// Places those of the trial that come at `from` or later; false once one ends above the limit.
bool OrderSearch::place(std::size_t from, Bytes limit, const Deadline& deadline) {
  tried_.clear();
  tried_peak_ = 0;
  if (from > 0)
    for (const Placed& one : placed_)
      if (position_[at(one.buffer)] < from) {
        tried_.push_back(one);
        tried_peak_ = std::max(tried_peak_, one.end);
      }
  std::size_t looks = placed_.size() / 4;
  bool fits = tried_peak_ <= limit;
  for (std::size_t p = from; p < trial_.size() && fits; ++p) {
    const Index i = trial_[p];
    const Bytes size = problem_.size(i), alignment = problem_.alignment(i);
    Bytes offset = 0;
    for (const Placed& one : tried_) {
      if (one.begin >= offset + size) break;
      ++looks;
      if (one.end > offset && conflict(i, one.buffer)) offset = align_up(one.end, alignment);
    }
    fits = offset + size <= limit;
    const auto place = std::upper_bound(tried_.begin(), tried_.end(), offset,
                                        [](Bytes begin, const Placed& other) { return begin < other.begin; });
    tried_.insert(place, {offset, offset + size, i});
    tried_peak_ = std::max(tried_peak_, offset + size);
  }
  work_ += static_cast<std::int64_t>(looks) / kLooksPerWork + 1;
  deadline.tick(looks / at(kLooksPerWork) + 1);
  return fits;
}

void OrderSearch::change(const Deadline& deadline) {
  ++changes_;
  ++quiet_;
  trial_ = order_;
  const std::size_t from = propose();
  Bytes& before = before_[at(changes_) % kMemory];
  work_ += 1 + static_cast<std::int64_t>(trial_.size() / 16);
  if (from < trial_.size() && place(from, std::max(peak_, before), deadline)) {
    order_ = trial_;
    for (std::size_t p = from; p < order_.size(); ++p) position_[at(order_[p])] = p;
    std::swap(placed_, tried_);
    peak_ = tried_peak_;
    keep();
  }
  before = std::min(before, peak_);
}

// Changes the trial; the first position that is new, or its end where there is nothing to change.
std::size_t OrderSearch::propose() {
  found_.clear();
  for (const Placed& one : placed_)
    if (one.end == peak_) found_.push_back(position_[at(one.buffer)]);
  if (found_.empty()) return trial_.size();
  const std::size_t top = found_[chance_.below(found_.size())];
  const auto conflicts_before = [&](std::size_t of) {
    found_.clear();
    for (std::size_t p = 0; p < of; ++p)
      if (conflict(order_[of], order_[p])) found_.push_back(p);
    return found_.size();
  };
  if (conflicts_before(top) == 0) return trial_.size();
  const std::size_t one = found_[chance_.below(found_.size())];
  if (chance_.below(8) >= kSwapsInEight) {
    std::rotate(trial_.begin() + static_cast<std::ptrdiff_t>(one), trial_.begin() + static_cast<std::ptrdiff_t>(top),
                trial_.begin() + static_cast<std::ptrdiff_t>(top) + 1);
    return one;
  }
  std::size_t other = top;
  if (chance_.below(4) > 0) {
    const std::size_t between = found_[chance_.below(found_.size())];
    if (conflicts_before(between) > 0) other = found_[chance_.below(found_.size())];
  }
  if (one == other) return trial_.size();
  std::swap(trial_[one], trial_[other]);
  return std::min(one, other);
}

}  // namespace memplan
