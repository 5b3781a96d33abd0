#include "placing/shared_objects.hpp"

#include <algorithm>

namespace memplan {

bool SharedObjects::may_hold(Index object, Index buffer) const {
  const Conflicts* conflicts = problem_.conflicts();
  if (conflicts == nullptr) return true;
  const std::vector<Index>& members = members_[at(object)];
  return std::none_of(members.begin(), members.end(), [&](Index i) { return conflicts->contains(i, buffer); });
}

Placement SharedObjects::end_to_end() const {
  Placement placement;
  placement.offsets.assign(problem_.size().size(), 0);
  placement.objects = count();
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

}  // namespace memplan
