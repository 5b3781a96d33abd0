#include "search/valley/refutations.hpp"

#include <algorithm>

namespace memplan {

void Refutations::add(const Fingerprint& state, Bytes capacity) {
  if (entries_.size() < kMost && 2 * count_ >= entries_.size()) grow();
  Entry* bucket = &entries_[place(state)];
  Entry* last = bucket + kWays - 1;
  Entry* same = std::find_if(bucket, last, [&](const Entry& entry) { return entry.state == state; });
  const bool known = same->state == state;
  if (!known && same->capacity < 0) ++count_;
  const Bytes highest = known ? std::max(capacity, same->capacity) : capacity;
  std::move_backward(bucket, same, same + 1);
  *bucket = {state, highest};
}

void Refutations::grow() {
  std::vector<Entry> old = std::move(entries_);
  entries_.assign(std::max<std::size_t>(1024, 4 * old.size()), {});
  count_ = 0;
  for (const Entry& entry : old)
    if (entry.capacity >= 0) add(entry.state, entry.capacity);
}

namespace {

bool nowhere_above(std::span<const Bytes> low, std::span<const Bytes> high) {
  return std::equal(low.begin(), low.end(), high.begin(), [](Bytes a, Bytes b) { return a <= b; });
}

}  // namespace

bool RefutedFloors::contains(const Fingerprint& items, Bytes capacity, std::span<const Bytes> floors) const {
  if (entries_.empty()) return false;
  const Entry* bucket = &entries_[place(items)];
  for (std::size_t k = 0; k < kWays && bucket[k].capacity >= 0; ++k)
    if (bucket[k].items == items && bucket[k].capacity >= capacity &&
        nowhere_above(this->floors(bucket[k], floors.size()), floors))
      return true;
  return false;
}

// In the place of one that it says more than, or of the oldest of its bucket.
void RefutedFloors::add(const Fingerprint& items, Bytes capacity, std::span<const Bytes> floors) {
  if (entries_.size() < kMost && 2 * count_ >= entries_.size()) grow();
  Entry* bucket = &entries_[place(items)];
  Entry* last = bucket + kWays - 1;
  Entry* old = std::find_if(bucket, last, [&](const Entry& entry) {
    return entry.capacity < 0 || (entry.items == items && entry.capacity <= capacity &&
                                  nowhere_above(floors, this->floors(entry, floors.size())));
  });
  const std::size_t row = old->capacity < 0 ? count_++ : old->row;
  rows_.resize(std::max(rows_.size(), count_ * stride_));
  std::copy(floors.begin(), floors.end(), rows_.begin() + static_cast<std::ptrdiff_t>(row * stride_));
  std::move_backward(bucket, old, old + 1);
  *bucket = {items, capacity, row};
}

// What is kept finds new places; a row is copied whole, whatever part of it is used.
void RefutedFloors::grow() {
  const std::vector<Entry> old = std::move(entries_);
  const std::vector<Bytes> rows = std::move(rows_);
  entries_.assign(std::max<std::size_t>(256, 4 * old.size()), {});
  rows_.clear();
  count_ = 0;
  for (const Entry& entry : old)
    if (entry.capacity >= 0) add(entry.items, entry.capacity, std::span(rows).subspan(entry.row * stride_, stride_));
}

}  // namespace memplan
