#include "pricing/priced_layout.hpp"

#include <algorithm>
#include <tuple>

namespace memplan {

namespace {}  // namespace

PricedLayout::PricedLayout(const Problem& problem, Meetings& meetings, std::span<const Bytes> offsets)
    : problem_(problem), meetings_(meetings), offsets_(offsets.begin(), offsets.end()), placed_(offsets.size() + 1, 1) {
  offsets_.push_back(0);
}

std::int64_t PricedLayout::paid_by(Index i) const {
  std::int64_t sum = 0;
  const Bytes offset = offsets_[at(i)];
  const std::span<const Meeting> meetings = meetings_.priced(i);
  for (const Meeting& meeting : meetings) {
    const Bytes difference = offset - offsets_[at(meeting.other)];
    if (meeting.after < difference && difference < meeting.before && placed_[at(meeting.other)]) sum += meeting.price;
  }
  work_ += static_cast<std::int64_t>(meetings.size()) / 4;
  return sum;
}

// A range ends at multiples of the alignment: those that it has inside stay inside.
void PricedLayout::look_at(Index i, std::span<const Meeting> meetings, bool forbidden, Bytes highest) {
  const Bytes alignment = problem_.alignment(i);
  for (const Meeting& meeting : meetings) {
    if (!placed_[at(meeting.other)]) continue;
    Bytes after = offsets_[at(meeting.other)] + meeting.after, before = offsets_[at(meeting.other)] + meeting.before;
    if (alignment > 1) {
      after = align_down(after, alignment);
      before = -align_down(-before, alignment);
    }
    if (before <= 0 || after >= highest) continue;
    if (after >= 0) {
      ends_.push_back({after, true, forbidden, meeting.price});
    } else {
      price_ += meeting.price;
      forbidden_ += forbidden;
    }
    if (before <= highest) ends_.push_back({before, false, forbidden, meeting.price});
  }
  work_ += static_cast<std::int64_t>(meetings.size());
}

std::span<const PricedOffset> PricedLayout::free(Index i, Bytes capacity) {
  free_.clear();
  ends_.clear();
  if (problem_.size(i) > capacity) return free_;
  const Bytes highest = align_down(capacity - problem_.size(i), problem_.alignment(i));
  price_ = 0;
  forbidden_ = 0;
  look_at(i, meetings_.forbidden(i), true, highest);
  look_at(i, meetings_.priced(i), false, highest);
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
