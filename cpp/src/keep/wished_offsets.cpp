#include "keep/wished_offsets.hpp"

#include <algorithm>
#include <map>

#include "base/sorting.hpp"

namespace memplan {

namespace {

// In the order of births, each with one that it would overlap, if that is in no pair yet. Two that overlap while both
// are in no pair do not stay so, so that those alive and in no pair never overlap.
Index pairs_apart(const Problem& problem, std::span<const Bytes> wishes, const std::vector<Index>& open) {
  std::vector<bool> is_open(problem.size().size(), false);
  for (const Index i : open) is_open[at(i)] = true;
  const std::vector<Index> births = sorted_by(problem.first()), deaths = sorted_by(problem.last());
  std::map<Bytes, Index> alive;  // by where they begin
  Index pairs = 0;
  auto dead = deaths.begin();
  for (const Index born : births) {
    if (!is_open[at(born)]) continue;
    for (; dead != deaths.end() && problem.last(*dead) <= problem.first(born); ++dead)
      if (const auto found = alive.find(wishes[at(*dead)]); found != alive.end() && found->second == *dead)
        alive.erase(found);
    const auto meets = [&](auto other) {
      return other != alive.end() && other->first < wishes[at(born)] + problem.size(born) &&
             wishes[at(born)] < other->first + problem.size(other->second);
    };
    auto other = alive.lower_bound(wishes[at(born)]);
    if (!meets(other) && other != alive.begin()) --other;
    if (meets(other)) {
      alive.erase(other);
      ++pairs;
    } else {
      alive.emplace(wishes[at(born)], born);
    }
  }
  return pairs;
}

}  // namespace

Wishes wishes_of(const Problem& problem, std::span<const Bytes> wishes, Bytes limit) {
  Wishes found;
  for (Index i = 0; i < problem.count(); ++i) {
    const Bytes wish = wishes[at(i)];
    if (wish == kNowhere || problem.size(i) == 0) continue;
    if (problem.pin(i) != kNowhere) {
      ++(problem.pin(i) == wish ? found.granted : found.refused);
    } else if (wish > limit - problem.size(i) || wish % problem.alignment(i) != 0) {
      ++found.refused;
    } else {
      found.open.push_back(i);
    }
  }
  if (!problem.has_shapes() && !problem.has_branches()) found.apart = pairs_apart(problem, wishes, found.open);
  return found;
}

}  // namespace memplan
