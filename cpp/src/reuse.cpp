#include "memplan/reuse.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "memplan/plan.hpp"

namespace memplan {

namespace {

struct Tenancy {
  Bytes end;
  Index tenant;
};

// Gives [begin, end) to `tenant` and calls ousted(previous) for each tenant that loses bytes.
template <class Ousted>
void move_in(std::map<Bytes, Tenancy>& tenancies, Bytes begin, Bytes end, Index tenant, Ousted&& ousted) {
  auto it = tenancies.lower_bound(begin);
  if (it != tenancies.begin() && std::prev(it)->second.end > begin) --it;
  while (it != tenancies.end() && it->first < end) {
    const auto [old_begin, old] = *it;
    ousted(old.tenant);
    it = tenancies.erase(it);
    if (old_begin < begin) tenancies[old_begin] = {begin, old.tenant};
    if (old.end > end) it = tenancies.insert_or_assign(end, old).first;
  }
  tenancies[begin] = {end, tenant};
}

}  // namespace

std::vector<Index> reused_by(const Problem& problem, std::span<const Bytes> offsets) {
  require_one_per_buffer(problem, offsets);
  std::vector<Index> by_birth(offsets.size());
  std::iota(by_birth.begin(), by_birth.end(), Index{0});
  std::stable_sort(by_birth.begin(), by_birth.end(),
                   [&](Index a, Index b) { return problem.first(a) < problem.first(b); });
  std::vector<Index> successor(offsets.size(), kNone);
  std::map<Bytes, Tenancy> tenancies;
  for (Index i : by_birth) {
    if (problem.size(i) == 0) continue;
    const Bytes begin = offsets[static_cast<std::size_t>(i)];
    move_in(tenancies, begin, saturated_add(begin, problem.size(i)), i, [&](Index old) {
      Index& first = successor[static_cast<std::size_t>(old)];
      if (first == kNone) first = i;
    });
  }
  return successor;
}

}  // namespace memplan
