#include "pricing/priced_layout.hpp"

#include <algorithm>
#include <tuple>

namespace memplan {

namespace {}  // namespace

PricedLayout::PricedLayout(const Problem& problem, PairRanges& ranges, std::span<const Bytes> offsets)
    : problem_(problem), ranges_(ranges), offsets_(offsets.begin(), offsets.end()), placed_(offsets.size() + 1, 1) {
  offsets_.push_back(0);
}

std::int64_t PricedLayout::paid_by(Index i) const {
  std::int64_t sum = 0;
  const Bytes offset = offsets_[at(i)];
  const std::span<const PairRange> ranges = ranges_.priced(i);
  for (const PairRange& range : ranges) {
    const Bytes difference = offset - offsets_[at(range.other)];
    if (range.after < difference && difference < range.before && placed_[at(range.other)]) sum += range.price;
  }
  work_ += static_cast<std::int64_t>(ranges.size()) / 4;
  return sum;
}

// A range ends at multiples of the alignment: those that it has inside stay inside.
void PricedLayout::look_at(Index i, std::span<const PairRange> ranges, bool forbidden, Bytes highest) {
  const Bytes alignment = problem_.alignment(i);
  for (const PairRange& range : ranges) {
    if (!placed_[at(range.other)]) continue;
    Bytes after = offsets_[at(range.other)] + range.after, before = offsets_[at(range.other)] + range.before;
    if (alignment > 1) {
      after = align_down(after, alignment);
      before = -align_down(-before, alignment);
    }
    if (before <= 0 || after >= highest) continue;
    if (after >= 0) {
      ends_.push_back({after, true, forbidden, range.price});
    } else {
      price_ += range.price;
      forbidden_ += forbidden;
    }
    if (before <= highest) ends_.push_back({before, false, forbidden, range.price});
  }
  work_ += static_cast<std::int64_t>(ranges.size());
}

std::span<const PricedOffset> PricedLayout::free(Index i, Bytes capacity) {
  free_.clear();
  ends_.clear();
  if (problem_.size(i) > capacity) return free_;
  const Bytes highest = align_down(capacity - problem_.size(i), problem_.alignment(i));
  price_ = 0;
  forbidden_ = 0;
  look_at(i, ranges_.forbidden(i), true, highest);
  look_at(i, ranges_.priced(i), false, highest);
  std::sort(ends_.begin(), ends_.end(),
            [](const End& a, const End& b) { return std::tie(a.offset, a.begins) < std::tie(b.offset, b.begins); });
  auto next = ends_.begin();
  for (Bytes offset = 0;;) {
    for (; next != ends_.end() && next->offset == offset && !next->begins; ++next) {
      price_ -= next->price;
      forbidden_ -= next->forbidden;
    }
    if (forbidden_ == 0) free_.push_back({offset, price_});
    for (; next != ends_.end() && next->offset == offset; ++next) {
      price_ += next->price;
      forbidden_ += next->forbidden;
    }
    if (offset == highest) break;
    offset = next == ends_.end() ? highest : next->offset;
  }
  return free_;
}

}  // namespace memplan
