#include "memplan/reuse.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "graph/takeovers.hpp"
#include "memplan/happens_before.hpp"
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

class TenancyWalk {
 public:
  TenancyWalk(const Graph& graph, const Addresses& addresses) : graph_(graph), addresses_(addresses) {}

  // What each region is used for. Call for all ops in order.
  void step(Index k) {
    const Op& op = graph_.op(k);
    for (Index t : op.inputs) use(k, t, false);
    for (Index t : op.outputs) write(k, op, t);
    if (const Bytes offset = addresses_.workspace[at(k)]; offset != kNotPlaced)
      use(k, kNone, offset, offset + op.workspace, true);
  }

  // By op.
  const std::vector<std::vector<Use>>& uses_of_regions() const { return uses_; }

 private:
  Index region(Index t) const { return addresses_.region.empty() ? kNone : addresses_.region[at(t)]; }
  Bytes begin(Index t) const { return addresses_.tensor[at(t)]; }

  bool lies_at(Index inside, Index whole, Bytes offset) const {
    return begin(inside) != kNotPlaced && region(inside) == region(whole) && begin(inside) == begin(whole) + offset;
  }

  void use(Index k, Index where, Bytes from, Bytes to, bool writes) {
    const auto [region, is_new] = regions_.try_emplace(where, uses_.size());
    if (is_new) uses_.emplace_back();
    uses_[region->second].push_back({k, from, to, writes});
  }

  void use(Index k, Index t, bool writes) {
    if (begin(t) != kNotPlaced) use(k, region(t), begin(t), begin(t) + graph_.tensor(t).bytes, writes);
  }

  // An output is written, save what it shows of inputs that lie inside it, or that it lies inside of.
  void write(Index k, const Op& op, Index t) {
    if (begin(t) == kNotPlaced) return;
    for (const View& view : op.aliases)
      if (view.output == t) return use(k, t, false);
    for (const View& view : op.slices)
      if (view.output == t && lies_at(t, view.input, view.offset)) return use(k, t, false);
    std::vector<std::pair<Bytes, Bytes>> shown;
    for (const View& part : op.concats)
      if (part.output == t && graph_.tensor(part.input).bytes > 0 && lies_at(part.input, t, part.offset))
        shown.emplace_back(part.offset, part.offset + graph_.tensor(part.input).bytes);
    std::sort(shown.begin(), shown.end());
    shown.emplace_back(graph_.tensor(t).bytes, graph_.tensor(t).bytes);
    Bytes next = 0;
    for (const auto& [from, to] : shown) {
      use(k, region(t), begin(t) + next, begin(t) + from, true);
      use(k, region(t), begin(t) + from, begin(t) + to, false);
      next = to;
    }
  }

  const Graph& graph_;
  const Addresses& addresses_;
  std::unordered_map<Index, std::size_t> regions_;  // where each is in uses_
  std::vector<std::vector<Use>> uses_;
};

// Per op, those whose bytes it takes over; ascending.
std::vector<std::vector<Index>> takeovers(const Graph& graph, const Addresses& addresses) {
  TenancyWalk walk(graph, addresses);
  for (Index k = 0; k < graph.op_count(); ++k) walk.step(k);
  return takeovers_of(walk.uses_of_regions(), graph.op_count());
}

}  // namespace

std::vector<Index> reused_by(const Problem& problem, std::span<const Bytes> offsets) {
  require_one_per_buffer(problem, offsets);
  std::vector<Part> by_birth;
  for (Index i = 0; i < problem.count(); ++i)
    problem.for_each_part(i, [&](const Part& part) { by_birth.push_back(part); });
  std::stable_sort(by_birth.begin(), by_birth.end(), [](const Part& a, const Part& b) { return a.first < b.first; });
  std::vector<Index> successor(offsets.size(), kNone);
  std::map<Bytes, Tenancy> tenancies;
  for (const Part& part : by_birth) {
    if (part.begin == part.end) continue;
    const Bytes base = offsets[at(part.buffer)];
    move_in(tenancies, saturated_add(base, part.begin), saturated_add(base, part.end), part.buffer, [&](Index old) {
      Index& first = successor[at(old)];
      if (first == kNone && old != part.buffer) first = part.buffer;
    });
  }
  return successor;
}

std::vector<ReuseEdge> reuse_edges(const Graph& graph, const Addresses& addresses) {
  const std::vector<std::vector<Index>> newly = takeovers(graph, addresses);
  const std::vector<std::vector<Index>> waits = waits_of(graph);
  OpSets before(graph.op_count());
  std::vector<ReuseEdge> edges;
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (Index earlier : waits[at(k)]) before.add_with_row(k, earlier);
    const auto first = static_cast<std::ptrdiff_t>(edges.size());
    const std::vector<Index>& taken = newly[at(k)];
    for (auto earlier = taken.rbegin(); earlier != taken.rend(); ++earlier) {  // the latest may imply the others
      if (before.contains(k, *earlier)) continue;
      before.add_with_row(k, *earlier);
      edges.push_back({*earlier, k});
    }
    std::reverse(edges.begin() + first, edges.end());
  }
  return edges;
}

}  // namespace memplan
