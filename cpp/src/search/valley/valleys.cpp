#include "search/valley/valleys.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace memplan {

Valleys::Valleys(const Sections& sections, const Floors& floors) : sections_(sections), floors_(floors) {
  leaves_ = std::bit_ceil(static_cast<std::size_t>(std::max<Index>(1, sections.count)));
}

void Valleys::reset() {
  const auto count = static_cast<std::size_t>(sections_.count);
  crossing_.assign(count + 1, 0);
  for (Index x = 0; x < sections_.items(); ++x) {
    ++crossing_[sections_.first[x] + 1];  // at first, by how much it differs from the section before
    --crossing_[sections_.last[x]];
  }
  std::partial_sum(crossing_.begin(), crossing_.end(), crossing_.begin());
  begins_.reset(sections_.count);
  run_.assign(count, {});
  if (count > 0) {
    begins_.set(0);
    run_[0].end = sections_.count;
  }
  difference_.assign(count + 1, 0);
  best_.assign(2 * leaves_, kNone);
  from_ = 0;
  to_ = sections_.count;
}

void Valleys::add(Index item) {
  for (Index s = sections_.first[item] + 1; s < sections_.last[item]; ++s) --crossing_[s];
}

void Valleys::remove(Index item) {
  for (Index s = sections_.first[item] + 1; s < sections_.last[item]; ++s) ++crossing_[s];
}

// Finds the runs of [from_, to_) again; widens both to where runs begin and end.
void Valleys::find_runs() {
  const Index count = sections_.count;
  Index begin = from_;
  if (from_ > 0) {
    const Index before = begins_.last_up_to(from_ - 1);
    if (run_[before].end > from_ || same_run(from_ - 1, from_)) begin = before;
  }
  const Index after = to_ < count ? begins_.last_up_to(to_) : count;
  const Index after_end = to_ < count ? run_[after].end : count;
  for (Index s = from_; s < to_; ++s) {
    begins_.clear(s);
    set_leaf(s, kNone);
  }
  const auto add = [&](Index first, Index end) {
    begins_.set(first);
    run_[first] = {first, end, kNone, 0, 0};
  };
  Index s = begin;
  while (s < to_) {
    Index end = std::max(s + 1, from_);
    while (end < to_ && same_run(end - 1, end)) ++end;
    if (end == to_ && to_ < count && same_run(to_ - 1, to_)) {
      if (after == to_) begins_.clear(to_);
      set_leaf(to_, kNone);
      end = after_end;
    }
    add(s, end);
    s = end;
  }
  if (s == to_ && after < to_) {
    add(s, after_end);
    s = after_end;
  }
  from_ = begin;
  to_ = s;
}

bool Valleys::is_leaf(Index begin, Index end) const {
  const Bytes floor = floors_.floor(begin);
  if (floor == Floors::kPlaced) return false;
  if (begin > 0 && joined(begin) && floors_.floor(begin - 1) < floor) return false;
  return end == sections_.count || !joined(end) || floors_.floor(end) > floor;
}

// Whether the valley that begins at a is to be preferred to that at b; either may be kNone.
bool Valleys::better(Index a, Index b) const {
  if (a == kNone || b == kNone) return b == kNone && a != kNone;
  const Valley& x = run_[a];
  const Valley& y = run_[b];
  if (x.choices != y.choices) return x.choices < y.choices;
  return x.slack != y.slack ? x.slack < y.slack : a < b;
}

void Valleys::set_leaf(Index section, Index value) {
  std::size_t node = leaves_ + at(section);
  if (best_[node] == kNone && value == kNone) return;
  best_[node] = value;
  for (node /= 2; node > 0; node /= 2) {
    const Index left = best_[2 * node];
    const Index right = best_[2 * node + 1];
    best_[node] = better(right, left) ? right : left;
  }
}

const Valley* Valleys::best_in(Index from, Index to) const {
  Index best = kNone;
  std::size_t low = leaves_ + at(from);
  std::size_t high = leaves_ + at(to);
  for (; low < high; low /= 2, high /= 2) {
    if (low % 2 == 1 && better(best_[low], best)) best = best_[low];
    if (low % 2 == 1) ++low;
    if (high % 2 == 1 && better(best_[--high], best)) best = best_[high];
  }
  return best == kNone ? nullptr : &run_[best];
}

}  // namespace memplan
