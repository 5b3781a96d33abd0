#include "search/pairs/pairs.hpp"

#include <algorithm>
#include <numeric>

#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr OffsetGap kAnywhere{-Pairs::kFar, Pairs::kFar};

Bytes multiple_above(Bytes difference, Bytes step) {
  const Bytes excess = difference % step;
  return excess > 0 ? difference + (step - excess) : difference - excess;
}

Bytes multiple_below(Bytes difference, Bytes step) { return -multiple_above(-difference, step); }

std::vector<OffsetGap> mirrored(const std::vector<OffsetGap>& gaps) {
  std::vector<OffsetGap> found;
  for (auto gap = gaps.rbegin(); gap != gaps.rend(); ++gap) found.push_back({-gap->highest, -gap->lowest});
  return found;
}

// Whether every difference of `some` is one of `all`.
bool within(const std::vector<OffsetGap>& some, const std::vector<OffsetGap>& all) {
  return std::all_of(some.begin(), some.end(), [&](const OffsetGap& gap) {
    return std::any_of(all.begin(), all.end(), [&](const OffsetGap& other) {
      return other.lowest <= gap.lowest && gap.highest <= other.highest;
    });
  });
}

bool meets(const std::vector<OffsetGap>& gaps) { return gaps.size() != 1 || gaps.front() != kAnywhere; }

}  // namespace

std::vector<OffsetGap> gaps_between(const Problem& problem, Index a, Index b) {
  std::vector<std::pair<Bytes, Bytes>> forbidden;  // between these, both excluded
  if (problem.kept_apart(a, b)) forbidden.emplace_back(-problem.size(b), problem.size(a));
  if (problem.alive_together(a, b)) {
    problem.for_each_part(a, [&](const Part& p) {
      problem.for_each_part(b, [&](const Part& q) {
        if (p.first < q.last && q.first < p.last) forbidden.emplace_back(p.begin - q.end, p.end - q.begin);
      });
    });
  }
  std::sort(forbidden.begin(), forbidden.end());
  const Bytes step = std::gcd(problem.alignment(a), problem.alignment(b));
  std::vector<OffsetGap> gaps;
  Bytes lowest = -Pairs::kFar;
  const auto add = [&](Bytes highest) {
    const Bytes low = lowest == -Pairs::kFar ? lowest : multiple_above(lowest, step);
    const Bytes high = highest == Pairs::kFar ? highest : multiple_below(highest, step);
    if (low <= high) gaps.push_back({low, high});
  };
  for (const auto& [after, before] : forbidden) {
    if (after >= lowest) add(after);
    lowest = std::max(lowest, before);
  }
  add(Pairs::kFar);
  return gaps;
}

std::vector<std::vector<Index>> connected_parts(const Problem& problem, const Deadline& deadline, Index ground) {
  std::vector<Index> rest = with_bytes(problem);
  std::erase(rest, ground);
  std::vector<std::vector<Index>> parts;
  while (!rest.empty()) {
    std::vector<Index> part = {rest.back()};
    rest.pop_back();
    for (std::size_t k = 0; k < part.size(); ++k) {
      deadline.tick(rest.size());
      std::erase_if(rest, [&](Index i) {
        if (!problem.conflict(part[k], i)) return false;
        part.push_back(i);
        return true;
      });
    }
    std::sort(part.begin(), part.end());
    if (ground != kNone) part.push_back(ground);
    parts.push_back(std::move(part));
  }
  return parts;
}

Pairs::Pairs(const Problem& problem, std::vector<Index> buffers, Bytes bound, const Deadline& deadline)
    : problem_(&problem), items_(std::move(buffers)) {
  const Index n = count();
  gaps_.resize(items_.size() * items_.size());
  for (Index i = 0; i < n; ++i)
    for (Index j = i + 1; j < n; ++j) {
      deadline.tick(4);
      gaps_[pair(i, j)] = gaps_between(problem, buffer(i), buffer(j));
      gaps_[pair(j, i)] = mirrored(gaps_[pair(i, j)]);
    }
  leave_out(items_, bound, deadline);
}

// Takes out what needs no search, one after another, as long as there is any.
void Pairs::leave_out(const std::vector<Index>& buffers, Bytes bound, const Deadline& deadline) {
  const auto n = static_cast<Index>(buffers.size());
  std::vector<bool> out(buffers.size(), false);
  const auto may_lie_on = [&](Index j, Index i) {  // where i lies
    if (size(j) > size(i) || alignment(i) % alignment(j) != 0) return false;
    if (!within({{0, 0}}, gaps_[pair(i, j)])) return false;
    for (Index k = 0; k < n; ++k) {
      deadline.tick();
      if (k != i && k != j && !out[at(k)] && !within(gaps_[pair(i, k)], gaps_[pair(j, k)])) return false;
    }
    return true;
  };
  const auto finds_a_place = [&](Index j) {
    Bytes free = bound < size(j) ? 0 : (bound - size(j)) / alignment(j) + 1;
    for (Index k = 0; k < n && free > 0; ++k)
      if (k != j && !out[at(k)] && meets(gaps_[pair(j, k)])) free -= (size(j) + size(k) - 2) / alignment(j) + 1;
    return free > 0;
  };
  for (bool again = true; again;) {
    again = false;
    for (Index j = 0; j < n; ++j) {
      if (out[at(j)]) continue;
      Index beneath = kNone;
      const bool finds = finds_a_place(j);
      for (Index i = 0; i < n && !finds && beneath == kNone; ++i)
        if (i != j && !out[at(i)] && may_lie_on(j, i)) beneath = i;
      if (!finds && beneath == kNone) continue;
      left_.push_back({buffer(j), beneath == kNone ? kNone : buffer(beneath)});
      out[at(j)] = again = true;
    }
  }
  std::vector<Index> kept;
  for (Index i = 0; i < n; ++i)
    if (!out[at(i)]) kept.push_back(i);
  std::vector<std::vector<OffsetGap>> gaps;
  for (const Index i : kept)
    for (const Index j : kept) gaps.push_back(std::move(gaps_[pair(i, j)]));
  items_.clear();
  for (const Index i : kept) items_.push_back(buffers[at(i)]);
  gaps_ = std::move(gaps);
}

bool Pairs::twins(Index i, Index j) const {
  if (size(i) != size(j) || alignment(i) != alignment(j) || gaps_[pair(i, j)] != gaps_[pair(j, i)]) return false;
  for (Index k = 0; k < count(); ++k)
    if (k != i && k != j && gaps_[pair(i, k)] != gaps_[pair(j, k)]) return false;
  return true;
}

void Pairs::complete(std::vector<Bytes>& offsets) const {
  std::vector<Index> placed = items_;
  for (auto left = left_.rbegin(); left != left_.rend(); ++left) {
    const auto& [buffer, beneath] = *left;
    if (beneath != kNone) {
      offsets[at(buffer)] = offsets[at(beneath)];
    } else {
      Bytes offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (const Index other : placed) {
          const Bytes difference = offset - offsets[at(other)];
          for (const OffsetGap& gap : gaps_between(*problem_, other, buffer)) {
            if (difference > gap.highest) continue;
            if (difference >= gap.lowest) break;
            offset = align_up(offsets[at(other)] + gap.lowest, problem_->alignment(buffer));
            moved = true;
            break;
          }
        }
      }
      offsets[at(buffer)] = offset;
    }
    placed.push_back(buffer);
  }
}

}  // namespace memplan
