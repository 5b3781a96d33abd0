#include "memplan/liveness.hpp"

#include <algorithm>
#include <set>

namespace memplan {

namespace {

// The steps in which some of the spans are, as spans that neither overlap nor touch.
void unite(std::vector<Span>& spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.first < b.first; });
  std::size_t kept = 0;
  for (const Span span : spans) {
    if (kept > 0 && span.first <= spans[kept - 1].last) {
      spans[kept - 1].last = std::max(spans[kept - 1].last, span.last);
    } else {
      spans[kept++] = span;
    }
  }
  spans.resize(kept);
}

// Tensors whose bytes are born or die one after another while an op runs, as strips.
class StagedMembers {
 public:
  StagedMembers(const Graph& graph, const Storages& storages, const OpSteps& steps)
      : growing_(graph.tensors().size()), fading_(growing_) {
    for (std::size_t k = 0; k < steps.fading.size(); ++k) {
      const Op& op = graph.op(static_cast<Index>(k));
      for (const OpSteps::Rows& rows : steps.fading[k]) fading_[at(rows.tensor)] = {&rows, steps.begin[k]};
      for (const OpSteps::Rows& rows : steps.growing[k]) growing_[at(rows.tensor)] = {&rows, steps.begin[k]};
      if (steps.growing[k].empty()) continue;
      for (const Index input : op.inputs)
        for (const Index output : op.outputs) keep_whole(graph, storages, input, output);
    }
  }

  // Adds the strips of a tensor, whose bytes and life in its storage are `whole`.
  void add(Index t, const Strip& whole, std::vector<Strip>& strips) const {
    std::vector<Bytes> cuts = {whole.begin, whole.end};
    const auto cut = [&](const Staged& staged) {
      if (staged.rows == nullptr) return;
      for (const Bytes bytes : staged.rows->bytes) cuts.push_back(std::min(whole.begin + bytes, whole.end));
    };
    cut(growing_[at(t)]);
    cut(fading_[at(t)]);
    std::sort(cuts.begin(), cuts.end());
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
      if (cuts[i] < cuts[i + 1] || cuts.size() == 2)
        strips.push_back({cuts[i], cuts[i + 1], first(t, cuts[i] - whole.begin, whole.first),
                          last(t, cuts[i] - whole.begin, whole.last)});
  }

 private:
  struct Staged {
    const OpSteps::Rows* rows = nullptr;
    Step begin = 0;  // of the op
  };

  // Of an input and an output of an op that share bytes of a storage, the inner one is there in all stages: what is
  // written in place or cut out, or the part of a concatenation. If neither lies in the other, both are.
  void keep_whole(const Graph& graph, const Storages& storages, Index input, Index output) {
    if (storages.storage_of[at(input)] != storages.storage_of[at(output)]) return;
    const Bytes read = storages.offset_of[at(input)], read_end = read + graph.tensor(input).bytes;
    const Bytes made = storages.offset_of[at(output)], made_end = made + graph.tensor(output).bytes;
    if (read >= made_end || made >= read_end) return;
    const bool is_inside = read <= made && made_end <= read_end, holds_it = made <= read && read_end <= made_end;
    if (is_inside || !holds_it) growing_[at(output)] = {};
    if (!is_inside) fading_[at(input)] = {};
  }

  // The stages in which a byte of an output is not alive yet come before it.
  Step first(Index t, Bytes byte, Step otherwise) const {
    const auto& [rows, begin] = growing_[at(t)];
    if (rows == nullptr) return otherwise;
    return begin + (std::upper_bound(rows->bytes.begin(), rows->bytes.end(), byte) - rows->bytes.begin());
  }
  // A byte of an input lives as long as stages need it.
  Step last(Index t, Bytes byte, Step otherwise) const {
    const auto& [rows, begin] = fading_[at(t)];
    if (rows == nullptr) return otherwise;
    return begin + (std::upper_bound(rows->bytes.begin(), rows->bytes.end(), byte) - rows->bytes.begin());
  }

  std::vector<Staged> growing_, fading_;  // per tensor
};

}  // namespace

std::vector<Strip> united(const std::vector<Strip>& members) {
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
  std::set<const Strip*> covering;
  std::vector<Strip> strips;
  std::vector<Span> before, spans;  // of the run of bytes that ends where this one begins, and of this one
  for (std::size_t i = 0; i < edges.size();) {
    const Bytes begin = edges[i].at;
    for (; i < edges.size() && edges[i].at == begin; ++i) {
      if (edges[i].begins) {
        covering.insert(edges[i].member);
      } else {
        covering.erase(edges[i].member);
      }
    }
    std::swap(before, spans);
    spans.clear();
    for (const Strip* member : covering) spans.push_back({member->first, member->last});
    unite(spans);
    if (spans.empty()) continue;
    const Bytes end = edges[i].at;
    if (spans == before) {
      for (std::size_t s = strips.size() - spans.size(); s < strips.size(); ++s) strips[s].end = end;
    } else {
      for (const Span& span : spans) strips.push_back({begin, end, span.first, span.last});
    }
  }
  return strips;
}

std::vector<Span> lives_of(const Graph& graph) {
  const Step end = std::max<Step>(graph.op_count(), 1);
  std::vector<Span> lives(graph.tensors().size(), {end, 0});
  const auto touch = [&](Index tensor, Step step) {
    Span& life = lives[at(tensor)];
    life.first = std::min(life.first, step);
    life.last = std::max(life.last, step + 1);
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
  return lives;
}

std::vector<Lifetime> lifetimes_of(const Graph& graph, const Storages& storages, const HappensBefore& order,
                                   const OpSteps& steps) {
  const std::vector<Span> lives = lives_of(graph);
  const Step end = steps.begin.back();
  std::vector<Lifetime> lifetimes(storages.storages.size(), {end, 0, {}});
  std::vector<std::vector<Strip>> members(storages.storages.size());
  const StagedMembers staged(graph, storages, steps);
  for (Index t = 0; t < graph.tensor_count(); ++t) {
    const std::size_t s = at(storages.storage_of[at(t)]);
    const Bytes begin = storages.offset_of[at(t)];
    staged.add(
        t,
        {begin, begin + graph.tensor(t).bytes, steps.begin[at(lives[at(t)].first)], steps.begin[at(lives[at(t)].last)]},
        members[s]);
  }
  for (std::size_t s = 0; s < members.size(); ++s)
    for (const Strip& strip : members[s]) {
      lifetimes[s].first = std::min(lifetimes[s].first, strip.first);
      lifetimes[s].last = std::max(lifetimes[s].last, strip.last);
    }
  for (std::size_t s = 0; s < members.size(); ++s) {
    if (!order.total() || members[s].size() == 1) continue;
    const Strip whole{0, storages.storages[s].bytes, lifetimes[s].first, lifetimes[s].last};
    std::vector<Strip> strips = united(members[s]);
    if (strips.size() > 1 || (strips.size() == 1 && !(strips[0] == whole))) lifetimes[s].strips = std::move(strips);
  }
  return lifetimes;
}

}  // namespace memplan
