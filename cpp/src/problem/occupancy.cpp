#include "memplan/occupancy.hpp"

#include <algorithm>
#include <bit>

#include "base/sorting.hpp"

namespace memplan {

namespace {

// Adds a range to sorted ranges that neither overlap nor touch, and keeps them so.
void unite(std::pmr::vector<ByteRange>& ranges, ByteRange range) {
  const auto first = std::lower_bound(ranges.begin(), ranges.end(), range.begin,
                                      [](const ByteRange& r, Bytes begin) { return r.end < begin; });
  auto last = first;
  for (; last != ranges.end() && last->begin <= range.end; ++last) {
    range.begin = std::min(range.begin, last->begin);
    range.end = std::max(range.end, last->end);
  }
  if (first == last) {
    ranges.insert(first, range);
  } else {
    *first = range;
    ranges.erase(first + 1, last);
  }
}

// Sorts ranges and joins those that overlap or touch.
void tidy(std::vector<ByteRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  std::size_t kept = 0;
  for (const ByteRange range : ranges) {
    if (kept > 0 && range.begin <= ranges[kept - 1].end) {
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    } else {
      ranges[kept++] = range;
    }
  }
  ranges.resize(kept);
}

}  // namespace

Occupancy::Occupancy(const Problem& problem) {
  if (problem.has_shapes()) {
    for (Index i = 0; i < problem.count(); ++i)
      problem.for_each_part(i, [&](const Part& part) { births_.push_back(part.first); });
    std::sort(births_.begin(), births_.end());
  } else {
    for (Index i : sorted_by(problem.first())) births_.push_back(problem.first(i));
  }
  if (!problem.reserved().empty()) {
    for (const Reserved& range : problem.reserved()) births_.push_back(range.first);
    std::sort(births_.begin(), births_.end());
  }
  births_.erase(std::unique(births_.begin(), births_.end()), births_.end());
  leaves_ = std::bit_ceil(std::max<Slot>(births_.size(), 1));
  at_some_step_.resize(2 * leaves_);
  at_every_step_.resize(2 * leaves_);
}

void Occupancy::add(Step first, Step last, ByteRange range) {
  first_ = slots_before(first);
  last_ = slots_before(last);
  add(1, 0, leaves_, range);
}

std::span<const ByteRange> Occupancy::taken(Step first, Step last) {
  found_.clear();
  first_ = slots_before(first);
  last_ = slots_before(last);
  collect(1, 0, leaves_);
  tidy(found_);
  return found_;
}

Occupancy::Slot Occupancy::slots_before(Step step) const {
  return static_cast<Slot>(std::lower_bound(births_.begin(), births_.end(), step) - births_.begin());
}

// The node covers the slots [begin, end), some of which are in [first_, last_).
void Occupancy::add(std::size_t node, Slot begin, Slot end, ByteRange range) {
  unite(at_some_step_[node], range);
  if (first_ <= begin && end <= last_) {
    unite(at_every_step_[node], range);
    return;
  }
  const Slot middle = begin + (end - begin) / 2;
  if (first_ < middle) add(2 * node, begin, middle, range);
  if (last_ > middle) add(2 * node + 1, middle, end, range);
}

void Occupancy::collect(std::size_t node, Slot begin, Slot end) {
  if (at_some_step_[node].empty()) return;
  const bool inside = first_ <= begin && end <= last_;
  const Ranges& ranges = inside ? at_some_step_[node] : at_every_step_[node];
  found_.insert(found_.end(), ranges.begin(), ranges.end());
  if (inside) return;
  const Slot middle = begin + (end - begin) / 2;
  if (first_ < middle) collect(2 * node, begin, middle);
  if (last_ > middle) collect(2 * node + 1, middle, end);
}

}  // namespace memplan
