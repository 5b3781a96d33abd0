#include "auto/between_peaks.hpp"

#include <algorithm>
#include <utility>

#include "memplan/bounds.hpp"
#include "memplan/plan.hpp"
#include "planners/planners.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr Bytes kNearPeaks[] = {0, 200};  // peaks: steps with the load, or that lack at most one byte in so many

// What lives at the first peak alone, at the last alone, and at both; each in the order in which it is to lie.
struct Replaced {
  std::vector<Index> old, both, young;
};

// The first and the last step with so many bytes.
std::pair<Step, Step> peaks_of(const LoadCurve& curve, Bytes least) {
  const auto high = [&](Bytes bytes) { return bytes >= least; };
  const auto first = std::find_if(curve.bytes.begin(), curve.bytes.end(), high);
  const auto last = std::find_if(curve.bytes.rbegin(), curve.bytes.rend(), high);
  return {curve.step[at(first - curve.bytes.begin())], curve.step[at(curve.bytes.rend() - last - 1)]};
}

Replaced replaced_between(const Problem& problem, std::pair<Step, Step> peaks) {
  const auto lives = [&](Index i, Step step) { return problem.first(i) <= step && step < problem.last(i); };
  Replaced found;
  for (const Index i : by_death(problem))
    if (lives(i, peaks.first) && !lives(i, peaks.second)) found.old.push_back(i);
  for (const Index i : by_birth(problem)) {
    if (!lives(i, peaks.second)) continue;
    (lives(i, peaks.first) ? found.both : found.young).push_back(i);
  }
  return found;
}

// One on the other; where the last one ends, or kNowhere if some offset is not aligned.
Bytes stacked_from(const Problem& problem, const std::vector<Index>& buffers, Bytes base, std::vector<Bytes>& offsets) {
  for (const Index i : buffers) {
    if (base % problem.alignment(i) != 0) return kNowhere;
    offsets[at(i)] = base;
    base += problem.size(i);
  }
  return base;
}

// Whether an old one is still alive where a young one is born.
bool are_in_the_way(const Problem& problem, const Replaced& found, const std::vector<Bytes>& offsets) {
  const auto end = [&](Index i) { return offsets[at(i)] + problem.size(i); };
  std::size_t from = 0;
  for (const Index young : found.young) {
    while (from < found.old.size() && end(found.old[from]) <= offsets[at(young)]) ++from;
    for (std::size_t k = from; k < found.old.size() && offsets[at(found.old[k])] < end(young); ++k)
      if (problem.last(found.old[k]) > problem.first(young)) return true;
  }
  return false;
}

}  // namespace

std::vector<Bytes> plan_between_peaks(const Problem& problem, Bytes enough, const Deadline& deadline) {
  std::vector<Bytes> best;
  Bytes peak = kMaxBytes;
  if (problem.count() == 0) return best;
  const LoadCurve curve = load_curve(problem);
  const Bytes load = *std::max_element(curve.bytes.begin(), curve.bytes.end());
  std::pair<Step, Step> tried{0, -1};
  for (const Bytes near : kNearPeaks) {
    const std::pair<Step, Step> at_peaks = peaks_of(curve, near == 0 ? load : load - load / near);
    if (std::exchange(tried, at_peaks) == at_peaks) continue;
    const Replaced found = replaced_between(problem, at_peaks);
    if (found.old.empty() || found.young.empty()) continue;
    std::vector<Bytes> pins(at(problem.count()), kNowhere);
    const Bytes base = stacked_from(problem, found.both, 0, pins);
    if (base == kNowhere || stacked_from(problem, found.old, base, pins) == kNowhere) continue;
    if (stacked_from(problem, found.young, base, pins) == kNowhere || are_in_the_way(problem, found, pins)) continue;
    const Problem around = problem.with_pins(std::move(pins));
    std::vector<Bytes> offsets = greedy_by_size_until(around, deadline).offsets;
    if (const Bytes reached = peak_of(problem, offsets); reached < peak) {
      peak = reached;
      best = std::move(offsets);
    }
    if (peak <= enough) break;
  }
  return best;
}

}  // namespace memplan
