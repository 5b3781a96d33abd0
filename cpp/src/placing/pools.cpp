#include "placing/pools.hpp"

namespace memplan {

bool Pools::may_hold(Index pool, Index buffer) const {
  const Conflicts* conflicts = problem_.conflicts();
  if (conflicts == nullptr) return true;
  const std::vector<Index>& members = members_[at(pool)];
  return std::none_of(members.begin(), members.end(), [&](Index i) { return conflicts->contains(i, buffer); });
}

Placement Pools::end_to_end() const {
  Placement placement;
  placement.offsets.assign(problem_.size().size(), 0);
  placement.pools = count();
  Bytes top = 0;
  for (const std::vector<Index>& members : members_) {
    Bytes alignment = 1;
    for (Index i : members) alignment = std::max(alignment, problem_.alignment(i));
    const Bytes begin = align_up(top, alignment);
    for (Index i : members) {
      const Bytes offset = align_up(begin, problem_.alignment(i));
      placement.offsets[at(i)] = offset;
      top = std::max(top, offset + problem_.size(i));
    }
  }
  return placement;
}

std::vector<Index> by_birth(const Problem& problem) {
  std::vector<Index> order;
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.size(i) > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return problem.first(a) < problem.first(b); });
  return order;
}

}  // namespace memplan
