#include "placed.hpp"

#include <algorithm>

namespace memplan {

namespace {

constexpr Bytes kNowhere = -1;

}  // namespace

Placed::Placed(const Problem& problem) : problem_(problem), occupancy_(problem) {
  if (problem.conflicts() != nullptr) offset_.assign(problem.size().size(), kNowhere);
}

void Placed::add(Index i, Bytes offset) {
  if (problem_.size(i) == 0) return;
  problem_.for_each_part(
      i, [&](const Part& part) { occupancy_.add(part.first, part.last, {offset + part.begin, offset + part.end}); });
  if (!offset_.empty()) offset_[static_cast<std::size_t>(i)] = offset;
}

std::span<const OffsetRange> Placed::room(Index i) {
  collect(i);
  room_.clear();
  Bytes next = 0;  // the lowest offset that nothing seen so far blocks
  for (const Blocked& blocked : blocked_) {
    if (blocked.after >= next) room_.push_back({next, blocked.after});
    next = std::max(next, blocked.before);
  }
  room_.push_back({next, kMaxBytes});
  return room_;
}

// What blocks buffer i, by `after`.
void Placed::collect(Index i) {
  blocked_.clear();
  problem_.for_each_part(i, [&](const Part& part) {
    for (const ByteRange& range : occupancy_.taken(part.first, part.last))
      blocked_.push_back({range.begin - part.end, range.end - part.begin});
  });
  if (!offset_.empty()) {
    problem_.conflicts()->for_each(i, [&](Index other) {
      const Bytes offset = offset_[static_cast<std::size_t>(other)];
      if (offset != kNowhere) blocked_.push_back({offset - problem_.size(i), offset + problem_.size(other)});
    });
  }
  if (offset_.empty() && problem_.parts(i).size() <= 1) return;  // sorted as they are
  std::sort(blocked_.begin(), blocked_.end(), [](const Blocked& a, const Blocked& b) { return a.after < b.after; });
}

Bytes lowest_fit(std::span<const OffsetRange> room, Bytes alignment) {
  for (const OffsetRange& run : room)
    if (const Bytes offset = align_up(run.lowest, alignment); offset <= run.highest) return offset;
  return align_up(room.back().lowest, alignment);
}

Bytes tightest_fit(std::span<const OffsetRange> room, Bytes alignment) {
  Bytes best = -1;
  Bytes best_width = kMaxBytes;
  for (const OffsetRange& run : room.first(room.size() - 1)) {
    const Bytes offset = align_up(run.lowest, alignment);
    if (offset > run.highest || run.highest - run.lowest >= best_width) continue;
    best = offset;
    best_width = run.highest - run.lowest;
  }
  return best >= 0 ? best : align_up(room.back().lowest, alignment);
}

}  // namespace memplan
