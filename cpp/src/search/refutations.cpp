#include "refutations.hpp"

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

}  // namespace memplan
