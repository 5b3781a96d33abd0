#include "search/ejection/obstacles.hpp"

#include <algorithm>

#include "problem/orders.hpp"
#include "search/pairs/pairs.hpp"

namespace memplan {

namespace {

void insert_end(std::vector<Obstacles::End>& ends, Bytes offset, Index buffer) {
  const auto place = std::upper_bound(ends.begin(), ends.end(), offset,
                                      [](Bytes value, const Obstacles::End& end) { return value < end.offset; });
  ends.insert(place, {offset, buffer});
}

void erase_end(std::vector<Obstacles::End>& ends, Bytes offset, Index buffer) {
  auto place = std::lower_bound(ends.begin(), ends.end(), offset,
                                [](const Obstacles::End& end, Bytes value) { return end.offset < value; });
  while (place->buffer != buffer) ++place;
  ends.erase(place);
}

bool can_meet(const Problem& problem, Index a, Index b) { return a != b && problem.conflict(a, b); }

}  // namespace

Obstacles::Obstacles(const Problem& problem, const Deadline& deadline)
    : problem_(problem), offsets_(problem.size().size(), kNowhere), words_(problem.size().size() / 64 + 1) {
  const std::vector<Index> buffers = with_bytes(problem);
  if (problem.has_shapes()) {
    fill_forbidden(buffers, deadline);
  } else {
    fill_rows(buffers, deadline);
  }
}

void Obstacles::fill_rows(const std::vector<Index>& buffers, const Deadline& deadline) {
  rows_.assign(offsets_.size() * words_, 0);
  for (const Index a : buffers) {
    deadline.tick(buffers.size());
    for (const Index b : buffers)
      if (can_meet(problem_, a, b)) rows_[at(a) * words_ + at(b) / 64] |= std::uint64_t{1} << (at(b) % 64);
  }
}

void Obstacles::fill_forbidden(const std::vector<Index>& buffers, const Deadline& deadline) {
  around_.resize(offsets_.size());
  for (const Index a : buffers) {
    deadline.tick(buffers.size());
    for (const Index b : buffers) {
      if (b <= a || !can_meet(problem_, a, b)) continue;
      deadline.tick(32);
      const std::vector<OffsetGap> gaps = gaps_between(problem_, a, b);
      for (std::size_t k = 0; k + 1 < gaps.size(); ++k) {
        around_[at(b)].push_back({gaps[k].highest, gaps[k + 1].lowest, a});
        around_[at(a)].push_back({-gaps[k + 1].lowest, -gaps[k].highest, b});
      }
    }
  }
}

void Obstacles::add(Index i, Bytes offset) {
  offsets_[at(i)] = offset;
  if (problem_.has_shapes()) return;
  insert_end(by_begin_, offset, i);
  insert_end(by_end_, offset + problem_.size(i), i);
}

void Obstacles::remove(Index i) {
  const Bytes offset = offsets_[at(i)];
  offsets_[at(i)] = kNowhere;
  if (problem_.has_shapes()) return;
  erase_end(by_begin_, offset, i);
  erase_end(by_end_, offset + problem_.size(i), i);
}

void Obstacles::clear() {
  std::fill(offsets_.begin(), offsets_.end(), kNowhere);
  by_begin_.clear();
  by_end_.clear();
}

void Obstacles::look(Index i) {
  ranges_.clear();
  ends_.clear();
  if (!problem_.has_shapes()) {
    const Bytes size = problem_.size(i);
    for (const End& begin : by_begin_)
      if (meet(i, begin.buffer))
        ranges_.push_back({begin.offset - size, begin.offset + problem_.size(begin.buffer), begin.buffer});
    for (const End& end : by_end_)
      if (meet(i, end.buffer)) ends_.push_back(end);
    looked_at_ = static_cast<std::int64_t>(by_begin_.size());
    return;
  }
  for (const Range& range : around_[at(i)]) {
    const Bytes offset = offsets_[at(range.buffer)];
    if (offset == kNowhere) continue;
    ranges_.push_back({offset + range.after, offset + range.before, range.buffer});
    ends_.push_back({offset + range.before, range.buffer});
  }
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
    return a.after != b.after ? a.after < b.after : a.buffer < b.buffer;
  });
  std::sort(ends_.begin(), ends_.end(), [](const End& a, const End& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.buffer < b.buffer;
  });
  looked_at_ = static_cast<std::int64_t>(around_[at(i)].size() + 8 * ranges_.size());
}

Bytes Obstacles::lowest(Index i) const {
  Bytes offset = 0;
  for (const Range& range : ranges_) {
    if (range.after >= offset) break;
    if (range.before > offset) offset = align_up(range.before, problem_.alignment(i));
  }
  return offset;
}

}  // namespace memplan
