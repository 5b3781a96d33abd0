#include "memplan/liveness.hpp"

#include <algorithm>
#include <set>

namespace memplan {

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

struct Span {
  Step first = 0;
  Step last = 0;
};

// Per tensor, from its write to its last read.
std::vector<Span> spans_of(const Graph& graph) {
  const Step end = std::max<Step>(graph.op_count(), 1);
  std::vector<Span> spans(graph.tensors().size(), {end, 0});
  const auto touch = [&](Index tensor, Step step) {
    Span& span = spans[at(tensor)];
    span.first = std::min(span.first, step);
    span.last = std::max(span.last, step + 1);
  };
  for (Index t = 0; t < graph.tensor_count(); ++t) {
    const TensorKind kind = graph.tensor(t).kind;
    if (kind == TensorKind::input || kind == TensorKind::weight) touch(t, 0);
    if (kind == TensorKind::weight) touch(t, end - 1);
  }
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (Index t : graph.op(k).inputs) touch(t, k);
    for (Index t : graph.op(k).outputs) touch(t, k);
  }
  for (Index t : graph.outputs()) touch(t, end - 1);
  return spans;
}

// Where members begin and end inside a storage, every run of bytes between lives as long as any member that covers it.
// One sweep over the bytes: O(members log members).
std::vector<Strip> strips_of(const std::vector<Strip>& members) {
  struct Edge {
    Bytes at;
    bool begins;
    const Strip* member;
  };
  std::vector<Edge> edges;
  for (const Strip& member : members) {
    if (member.begin == member.end) continue;
    edges.push_back({member.begin, true, &member});
    edges.push_back({member.end, false, &member});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  std::multiset<Step> firsts, lasts;
  std::vector<Strip> strips;
  for (std::size_t i = 0; i < edges.size();) {
    const Bytes begin = edges[i].at;
    for (; i < edges.size() && edges[i].at == begin; ++i) {
      const Strip& member = *edges[i].member;
      if (edges[i].begins) {
        firsts.insert(member.first);
        lasts.insert(member.last);
      } else {
        firsts.erase(firsts.find(member.first));
        lasts.erase(lasts.find(member.last));
      }
    }
    if (firsts.empty()) continue;
    const Strip strip{begin, edges[i].at, *firsts.begin(), *lasts.rbegin()};
    if (!strips.empty() && strips.back().end == begin && strips.back().first == strip.first &&
        strips.back().last == strip.last) {
      strips.back().end = strip.end;
    } else {
      strips.push_back(strip);
    }
  }
  return strips;
}

}  // namespace

std::vector<Lifetime> lifetimes_of(const Graph& graph, const Storages& storages, const HappensBefore& order) {
  const std::vector<Span> spans = spans_of(graph);
  const Step end = std::max<Step>(graph.op_count(), 1);
  std::vector<Lifetime> lifetimes(storages.storages.size(), {end, 0, {}});
  std::vector<std::vector<Strip>> members(storages.storages.size());
  for (Index t = 0; t < graph.tensor_count(); ++t) {
    const std::size_t s = at(storages.storage_of[at(t)]);
    const Span span = spans[at(t)];
    lifetimes[s].first = std::min(lifetimes[s].first, span.first);
    lifetimes[s].last = std::max(lifetimes[s].last, span.last);
    const Bytes begin = storages.offset_of[at(t)];
    members[s].push_back({begin, begin + graph.tensor(t).bytes, span.first, span.last});
  }
  for (std::size_t s = 0; s < members.size(); ++s) {
    if (!order.total() || members[s].size() == 1) continue;
    const Strip whole{0, storages.storages[s].bytes, lifetimes[s].first, lifetimes[s].last};
    std::vector<Strip> strips = strips_of(members[s]);
    if (strips.size() > 1 || (strips.size() == 1 && !(strips[0] == whole))) lifetimes[s].strips = std::move(strips);
  }
  return lifetimes;
}

}  // namespace memplan
