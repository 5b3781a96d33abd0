#include "problem/ground.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "memplan/errors.hpp"

namespace memplan {

Ground::Ground(const Problem& problem)
    : problem_(problem), begin_(std::numeric_limits<Step>::max()), end_(std::numeric_limits<Step>::min()) {
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.size(i) == 0) continue;
    if (problem.pin(i) == kNowhere) free_.push_back(i);
    begin_ = std::min(begin_, problem.first(i));
    end_ = std::max(end_, problem.last(i));
  }
  std::vector<Index> by_birth = free_;
  std::sort(by_birth.begin(), by_birth.end(), [&](Index a, Index b) { return problem.first(a) < problem.first(b); });
  Step death = std::numeric_limits<Step>::min();
  for (const Index i : by_birth) {
    births_.push_back(problem.first(i));
    deaths_.push_back(death = std::max(death, problem.last(i)));
  }
}

Problem Ground::at(Bytes capacity) const {
  std::vector<Bytes> size, alignment;
  std::vector<Step> first, last;
  std::vector<Part> parts;
  const auto add = [&](Bytes bytes, Step born, Step dead, Bytes multiple) {
    size.push_back(bytes);
    first.push_back(born);
    last.push_back(dead);
    alignment.push_back(multiple);
  };
  for (const Index i : free_) add(problem_.size(i), problem_.first(i), problem_.last(i), problem_.alignment(i));
  std::vector<Part> fixed = fixed_parts(capacity);
  Step end = end_;
  std::vector<bool> met(free_.size(), false);
  const std::vector<std::pair<Index, Index>> apart_from_pins = apart();
  if (end > std::numeric_limits<Step>::max() - static_cast<Step>(apart_from_pins.size()))
    throw UnsupportedError("pinned buffers that conflict need steps of their own after the last, " +
                           std::to_string(end));
  for (const auto& [buffer, pinned] : apart_from_pins) {
    const Index ground = static_cast<Index>(free_.size());
    const Bytes pin = problem_.pin(pinned);
    if (!met[memplan::at(buffer)]) append_parts(buffer, parts);
    met[memplan::at(buffer)] = true;
    parts.push_back({buffer, 0, size[memplan::at(buffer)], end, end + 1});
    fixed.push_back({ground, pin, pin + problem_.size(pinned), end, end + 1});
    last[memplan::at(buffer)] = ++end;
  }
  for (std::size_t k = 0; k < free_.size(); ++k)
    if (!met[k] && !problem_.parts(free_[k]).empty()) append_parts(static_cast<Index>(k), parts);
  if (!fixed.empty()) {
    add(capacity, begin_, end, 1);
    parts.insert(parts.end(), fixed.begin(), fixed.end());
  }
  Problem without(std::move(size), std::move(first), std::move(last), std::move(alignment));
  without = without.with_shapes(std::move(parts));
  return problem_.conflicts() == nullptr ? without : without.with_conflicts(conflicts_among(without.count()));
}

std::vector<Bytes> Ground::offsets(std::span<const Bytes> of_free) const {
  std::vector<Bytes> offsets(problem_.size().size(), 0);
  for (Index i = 0; i < problem_.count(); ++i)
    if (problem_.pin(i) != kNowhere) offsets[memplan::at(i)] = problem_.pin(i);
  for (std::size_t k = 0; k < free_.size(); ++k) offsets[memplan::at(free_[k])] = of_free[k];
  return offsets;
}

std::vector<Part> Ground::fixed_parts(Bytes capacity) const {
  const Index ground = static_cast<Index>(free_.size());
  std::vector<Part> parts;
  const auto add = [&](Bytes begin, Bytes end, Step first, Step last) {
    if (meets_free(first, last)) parts.push_back({ground, begin, end, first, last});
  };
  for (Index i = 0; i < problem_.count(); ++i) {
    if (problem_.pin(i) == kNowhere || problem_.size(i) == 0) continue;
    const Bytes pin = problem_.pin(i);
    problem_.for_each_part(i, [&](const Part& p) { add(pin + p.begin, pin + p.end, p.first, p.last); });
  }
  for (const Reserved& range : problem_.reserved()) {
    const Bytes end = std::min(range.end, capacity);
    const Step first = std::max(range.first, begin_), last = std::min(range.last, end_);
    if (range.begin < end && first < last) add(range.begin, end, first, last);
  }
  return parts;
}

// Whether a free buffer lives in some of the steps: of the last that is born before their end, and of all before it,
// one dies after their beginning.
bool Ground::meets_free(Step first, Step last) const {
  const auto after = std::lower_bound(births_.begin(), births_.end(), last);
  return after != births_.begin() && deaths_[static_cast<std::size_t>(after - births_.begin()) - 1] > first;
}

// The parts of a free buffer, by its position among them, or the one that it is.
void Ground::append_parts(Index k, std::vector<Part>& parts) const {
  problem_.for_each_part(free_[memplan::at(k)], [&](Part part) {
    part.buffer = k;
    parts.push_back(part);
  });
}

// Free buffers, by position among them, each with a pinned one that it conflicts with whatever their lifetimes.
std::vector<std::pair<Index, Index>> Ground::apart() const {
  std::vector<std::pair<Index, Index>> found;
  for (std::size_t k = 0; problem_.conflicts() != nullptr && k < free_.size(); ++k)
    problem_.conflicts()->for_each(free_[k], [&](Index other) {
      if (problem_.pin(other) != kNowhere && problem_.size(other) > 0) found.emplace_back(static_cast<Index>(k), other);
    });
  return found;
}

Conflicts Ground::conflicts_among(Index count) const {
  std::vector<Index> position(problem_.size().size(), kNone);
  for (std::size_t k = 0; k < free_.size(); ++k) position[memplan::at(free_[k])] = static_cast<Index>(k);
  Conflicts conflicts(count);
  for (const Index i : free_)
    problem_.conflicts()->for_each(i, [&](Index other) {
      const Index k = position[memplan::at(i)], other_k = position[memplan::at(other)];
      if (other_k != kNone && k < other_k) conflicts.add(k, other_k);
    });
  return conflicts;
}

}  // namespace memplan
