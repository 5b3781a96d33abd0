#include "memplan/reuse.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "memplan/happens_before.hpp"
#include "memplan/plan.hpp"

namespace memplan {

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

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

namespace {

// Who has used each byte since it was last written, its writer first.
class Users {
 public:
  // Op k uses bytes [begin, end); a writer takes them over, and calls waits_for(op) for all that used them before.
  template <class WaitsFor>
  void use(Index k, Bytes begin, Bytes end, bool writes, WaitsFor&& waits_for) {
    if (begin >= end) return;
    split_at(begin);
    split_at(end);
    for (auto it = ranges_.lower_bound(begin); it != ranges_.end() && it->first < end;) {
      for (const Index op : it->second.ops)
        if (writes && op != k) waits_for(op);
      it = writes ? ranges_.erase(it) : std::next(it);
    }
    if (writes) {
      ranges_[begin] = {end, {k}};
      return;
    }
    for (Bytes next = begin; next < end;) {  // bytes that no op has used yet, an input's, have no range
      auto it = ranges_.lower_bound(next);
      if (it == ranges_.end() || it->first > next) {
        const Bytes to = it == ranges_.end() ? end : std::min(end, it->first);
        it = ranges_.emplace_hint(it, next, Range{to, {}});
      }
      if (it->second.ops.empty() || it->second.ops.back() != k) it->second.ops.push_back(k);
      next = it->second.end;
    }
  }

 private:
  struct Range {
    Bytes end;
    std::vector<Index> ops;
  };

  void split_at(Bytes address) {
    auto it = ranges_.lower_bound(address);
    if (it == ranges_.begin()) return;
    Range& before = std::prev(it)->second;
    if (before.end <= address) return;
    ranges_.emplace_hint(it, address, before);
    before.end = address;
  }

  std::map<Bytes, Range> ranges_;  // by first byte; disjoint
};

class Walk {
 public:
  Walk(const Graph& graph, const Addresses& addresses) : graph_(graph), addresses_(addresses) {}

  // The ops that used, since they were last written, the bytes that op k writes; descending. Call for all in order.
  std::vector<Index> step(Index k) {
    const Op& op = graph_.op(k);
    waits_.clear();
    for (Index t : op.inputs) use(k, t, false);
    for (Index t : op.outputs) write(k, op, t);
    if (const Bytes offset = addresses_.workspace[at(k)]; offset != kNotPlaced)
      use(k, kNone, offset, offset + op.workspace, true);
    std::sort(waits_.begin(), waits_.end(), std::greater<>());
    waits_.erase(std::unique(waits_.begin(), waits_.end()), waits_.end());
    return waits_;
  }

 private:
  Index region(Index t) const { return addresses_.region.empty() ? kNone : addresses_.region[at(t)]; }
  Bytes begin(Index t) const { return addresses_.tensor[at(t)]; }

  bool lies_at(Index inside, Index whole, Bytes offset) const {
    return begin(inside) != kNotPlaced && region(inside) == region(whole) && begin(inside) == begin(whole) + offset;
  }

  void use(Index k, Index where, Bytes from, Bytes to, bool writes) {
    users_[where].use(k, from, to, writes, [&](Index op) { waits_.push_back(op); });
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
      if (part.output == t && lies_at(part.input, t, part.offset))
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
  std::unordered_map<Index, Users> users_;  // per region
  std::vector<Index> waits_;
};

// Per op, those whose bytes it takes over; descending.
std::vector<std::vector<Index>> takeovers(const Graph& graph, const Addresses& addresses) {
  Walk walk(graph, addresses);
  std::vector<std::vector<Index>> taken;
  for (Index k = 0; k < graph.op_count(); ++k) taken.push_back(walk.step(k));
  return taken;
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
    for (Index earlier : newly[at(k)]) {  // the latest first: it may imply the others
      if (before.contains(k, earlier)) continue;
      before.add_with_row(k, earlier);
      edges.push_back({earlier, k});
    }
    std::reverse(edges.begin() + first, edges.end());
  }
  return edges;
}

}  // namespace memplan
