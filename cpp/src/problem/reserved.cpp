#include "problem/reserved.hpp"

#include <algorithm>
#include <tuple>

#include "problem/rectangles.hpp"

namespace memplan {

namespace {

using Steps = std::vector<std::pair<Step, Step>>;

bool overlap(const std::vector<Reserved>& ranges) {
  std::vector<Rectangle> rectangles;
  for (const Reserved& range : ranges) rectangles.push_back({range.begin, range.end, range.first, range.last});
  return any_overlap(rectangles);
}

// The steps in which one of the ranges is reserved.
Steps steps_of(const std::vector<const Reserved*>& ranges) {
  Steps steps, joined;
  for (const Reserved* range : ranges) steps.emplace_back(range->first, range->last);
  std::sort(steps.begin(), steps.end());
  for (const auto& [first, last] : steps) {
    if (!joined.empty() && first <= joined.back().second)
      joined.back().second = std::max(joined.back().second, last);
    else
      joined.emplace_back(first, last);
  }
  return joined;
}

// Ranges [from, to) of those that are sorted by where they begin, no other of which touches them: band by band between
// two ends, bands with the same steps as one.
void unite_cluster(const std::vector<Reserved>& ranges, std::size_t from, std::size_t to, std::vector<Reserved>& out) {
  std::vector<Bytes> ends;
  for (std::size_t r = from; r < to; ++r) ends.insert(ends.end(), {ranges[r].begin, ranges[r].end});
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<const Reserved*> open;
  Steps before;
  Bytes begin = ends.front();
  const auto close = [&](Bytes end) {
    for (const auto& [first, last] : before) out.push_back({begin, end, first, last});
  };
  std::size_t next = from;
  for (const Bytes end : ends) {
    std::erase_if(open, [&](const Reserved* range) { return range->end <= end; });
    for (; next < to && ranges[next].begin == end; ++next) open.push_back(&ranges[next]);
    Steps steps = steps_of(open);
    if (steps == before) continue;
    close(end);
    before = std::move(steps);
    begin = end;
  }
}

}  // namespace

std::vector<Reserved> united(std::vector<Reserved> ranges) {
  if (!overlap(ranges)) return ranges;
  std::sort(ranges.begin(), ranges.end(), [](const Reserved& a, const Reserved& b) {
    return std::tie(a.begin, a.end, a.first, a.last) < std::tie(b.begin, b.end, b.first, b.last);
  });
  std::vector<Reserved> out;
  for (std::size_t from = 0, to = 0; from < ranges.size(); from = to) {
    Bytes end = ranges[from].end;
    for (to = from + 1; to < ranges.size() && ranges[to].begin <= end; ++to) end = std::max(end, ranges[to].end);
    unite_cluster(ranges, from, to, out);
  }
  return out;
}

std::vector<Reserved> throughout(std::span<const Reserved> ranges, Step first, Step last) {
  std::vector<Reserved> always;
  for (const Reserved& range : ranges)
    if (range.first <= first && last <= range.last) always.push_back({range.begin, range.end});
  always = united(std::move(always));
  std::sort(always.begin(), always.end(), [](const Reserved& a, const Reserved& b) { return a.begin < b.begin; });
  return always;
}

Bytes end_beside(std::span<const Reserved> ranges, Bytes bytes, Bytes unit) {
  if (bytes <= 0) return 0;
  Bytes begin = 0;
  for (const Reserved& range : ranges) {
    if (range.begin - begin >= bytes) break;
    bytes -= std::max<Bytes>(range.begin - begin, 0);
    begin = align_up(range.end, unit);
  }
  return saturated_add(begin, bytes);
}

}  // namespace memplan
