#include "problem/granules.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace memplan {

namespace {

constexpr std::size_t kMostParts = 256;  // of a buffer that is rounded: it takes their square

using Spans = std::vector<std::pair<Step, Step>>;  // spans of steps, ascending, apart

Spans united(Spans lives) {
  std::sort(lives.begin(), lives.end());
  Spans all;
  for (const auto& [first, last] : lives) {
    if (!all.empty() && first <= all.back().second)
      all.back().second = std::max(all.back().second, last);
    else
      all.emplace_back(first, last);
  }
  return all;
}

// The parts of a buffer in granules: outwards, as few as possible.
void round_outwards(std::span<const Part> parts, Bytes granule, std::vector<Part>& rounded) {
  const auto begin_of = [&](const Part& part) { return part.begin / granule; };
  const auto end_of = [&](const Part& part) { return align_up(part.end, granule) / granule; };
  std::vector<Bytes> cuts;
  for (const Part& part : parts) {
    cuts.push_back(begin_of(part));
    cuts.push_back(end_of(part));
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  Spans below;
  std::size_t begun = rounded.size();  // the parts of the band below
  for (std::size_t k = 0; k + 1 < cuts.size(); ++k) {
    Spans lives;
    for (const Part& part : parts)
      if (begin_of(part) <= cuts[k] && cuts[k] < end_of(part)) lives.emplace_back(part.first, part.last);
    lives = united(std::move(lives));
    if (lives == below) {
      for (std::size_t p = begun; p < rounded.size(); ++p) rounded[p].end = cuts[k + 1];
      continue;
    }
    begun = rounded.size();
    for (const auto& [first, last] : lives)
      rounded.push_back({parts.front().buffer, cuts[k], cuts[k + 1], first, last});
    below = std::move(lives);
  }
}

}  // namespace

Bytes granule_of(const Problem& problem) {
  Bytes granule = 0;
  for (Index i = 0; i < problem.count() && granule != 1; ++i)
    if (problem.size(i) > 0) granule = std::gcd(granule, problem.alignment(i));
  return std::max<Bytes>(granule, 1);
}

void InGranules::change(Bytes begin, Bytes end, int sign) {
  const auto count = [&](std::map<Bytes, Index>& all, Bytes inside) {
    if (inside == 0) return;
    const auto found = all.try_emplace(inside, 0).first;
    found->second += sign;
    if (found->second == 0) all.erase(found);
  };
  const Bytes full = align_up(end, granule_);
  covered_ += sign * (full - begin);
  tails_ += sign * (full - end);
  count(ends_, end % granule_);
  count(begins_, begin % granule_);
}

void InGranules::change_anywhere(Bytes bytes, int sign) {
  covered_ += sign * bytes;
  anywhere_ += sign * std::min(bytes, granule_ - 1);
  anywhere_count_ += sign;
}

// The bytes that tails and parts have in common, at most. Each part that begins inside a granule needs one below it,
// which ends before it in there; those that begin first save most.
Bytes InGranules::overlapping() const {
  Bytes bytes = 0;
  std::int64_t taken = 0, ended = anywhere_count_;  // what begins anywhere may end anywhere
  auto end = ends_.begin();
  for (const auto& [begin, count] : begins_) {
    for (; end != ends_.end() && end->first <= begin; ++end) ended += end->second;
    const std::int64_t lower = std::min<std::int64_t>(count, ended - taken);
    bytes += lower * (granule_ - begin);
    taken += lower;
  }
  return bytes + std::min(anywhere_, tails_);
}

Bytes InGranules::least() const {
  const Bytes top = ends_.empty() ? 0 : granule_ - ends_.begin()->first;
  return std::max<Bytes>(covered_ - overlapping() - top, 0);
}

std::optional<Problem> in_granules(const Problem& problem, Bytes granule) {
  if (granule == 1 || problem.has_pins() || !problem.reserved().empty() || !problem.together().empty() ||
      problem.has_branches())
    return std::nullopt;
  if (std::ranges::all_of(problem.size(), [&](Bytes size) { return size % granule == 0; })) return std::nullopt;
  Problem::Columns columns = problem.columns();
  columns.names.clear();
  for (Bytes& size : columns.size) size = align_up(size, granule) / granule;
  for (Bytes& alignment : columns.alignment) alignment /= granule;
  for (std::size_t i = 0; i < columns.size.size(); ++i)
    if (columns.size[i] == 0) columns.alignment[i] = 1;
  std::vector<Part> parts;
  for (Index i = 0; i < problem.count(); ++i) {
    if (problem.parts(i).size() > kMostParts) return std::nullopt;
    round_outwards(problem.parts(i), granule, parts);
  }
  return problem.without_shapes().with_columns(std::move(columns)).with_shapes(std::move(parts));
}

}  // namespace memplan
