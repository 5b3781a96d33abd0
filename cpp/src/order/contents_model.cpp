#include "order/contents_model.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "memplan/happens_before.hpp"
#include "order/possible_everywhere.hpp"
#include "storage/contents.hpp"
#include "storage/row_times.hpp"

namespace memplan {

namespace {

// Bytes [begin, end) of an origin that a tensor shows.
struct Showing {
  Bytes begin;
  Bytes end;
  Index tensor;
};

// Walks along the bytes of an origin: who shows them.
class ShownBytes {
 public:
  explicit ShownBytes(const std::vector<Showing>& shown) : shown_(shown), by_begin_(shown.size()) {
    std::iota(by_begin_.begin(), by_begin_.end(), std::size_t{0});
    std::stable_sort(by_begin_.begin(), by_begin_.end(),
                     [&](std::size_t a, std::size_t b) { return shown_[a].begin < shown_[b].begin; });
  }

  // The numbers of those that show the byte, ascending; bytes are asked for in ascending order.
  const std::set<std::size_t>& from(Bytes byte) {
    std::erase_if(now_, [&](std::size_t number) { return shown_[number].end <= byte; });
    for (; next_ < by_begin_.size() && shown_[by_begin_[next_]].begin <= byte; ++next_)
      if (shown_[by_begin_[next_]].end > byte) now_.insert(by_begin_[next_]);
    return now_;
  }

 private:
  const std::vector<Showing>& shown_;
  std::vector<std::size_t> by_begin_;
  std::size_t next_ = 0;
  std::set<std::size_t> now_;
};

}  // namespace

void sort_unique(std::vector<Index>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

bool has_contents_model(const Graph& graph) {
  const Bytes sum = total_bytes(graph).value_or(kMaxBytes);
  return graph.op_count() > 0 && on_one_stream(graph) && !graph.branches() && sum < kMaxBytes / 16;
}

ContentsModel::ContentsModel(std::size_t ops)
    : waits(ops),
      followers(ops),
      makes(ops),
      uses(ops),
      overs(ops),
      over_items(ops),
      making(ops, 0),
      over_at_most(ops, 0) {}

ContentsModel::ContentsModel(const Graph& graph, const StorageOptions& options) : ContentsModel(graph.ops().size()) {
  waits = waits_of(graph);
  items_of_.resize(graph.tensors().size());
  for (Index k = 0; k < op_count(); ++k) {
    sort_unique(waits[at(k)]);
    for (const Index before : waits[at(k)]) followers[at(before)].push_back(k);
  }
  const std::vector<Shared> possible = possible_everywhere(graph, options);
  add_items(graph, options, possible);
  for (Index k = 0; k < op_count(); ++k) {
    if (options.place.contains(TensorKind::workspace)) making[at(k)] += graph.op(k).workspace;
    for (const Index i : makes[at(k)]) making[at(k)] += items[at(i)].bytes;
  }
  add_overs(graph, possible);
}

void ContentsModel::add_items(const Graph& graph, const StorageOptions& options, std::span<const Shared> possible) {
  StorageOptions none = options;
  none.inplace = none.zero_copy = false;
  const HappensBefore order(graph);
  const Storages storages = storages_of(graph, order, none);
  const Contents contents(graph, storages, possible);
  const ArenaMembership membership(graph, storages, options, possible);
  std::vector<Index> producer(graph.tensors().size(), kNone);
  std::vector<std::vector<Index>> users(graph.tensors().size());
  for (Index k = 0; k < graph.op_count(); ++k) {
    for (const Index t : graph.op(k).inputs) users[at(t)].push_back(k);
    for (const Index t : graph.op(k).outputs) producer[at(t)] = k;
    for (const Index t : graph.op(k).outputs) users[at(t)].push_back(k);
  }
  std::vector<bool> kept(graph.tensors().size(), false);
  for (const Index t : graph.outputs()) kept[at(t)] = true;
  for (Index t = 0; t < graph.tensor_count(); ++t)
    if (graph.tensor(t).kind == TensorKind::weight) kept[at(t)] = true;

  const std::vector<std::vector<Index>> sparing = sparing_ops(graph, possible);
  std::vector<std::vector<Showing>> shown(storages.storages.size());  // per origin
  for (Index t = 0; t < graph.tensor_count(); ++t) {
    const Index s = storages.storage_of[at(t)];
    if (!membership.surely_inside(s)) continue;
    const Bytes begin = storages.offset_of[at(t)];
    contents.for_each(s, begin, begin + graph.tensor(t).bytes,
                      [&](Index origin, Bytes from, Bytes to) { shown[at(origin)].push_back({from, to, t}); });
  }
  for (std::size_t s = 0; s < shown.size(); ++s) {
    std::vector<Bytes> ends;
    for (const Showing& showing : shown[s]) ends.insert(ends.end(), {showing.begin, showing.end});
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    using Life = std::tuple<Index, std::vector<Index>, bool, Index, std::vector<Index>>;
    std::map<Life, Index> known;  // maker, users, kept, from when, and who spares it -> item
    const bool is_inside = membership.surely_inside(static_cast<Index>(s));
    ShownBytes showing_now(shown[s]);
    for (std::size_t e = 0; e + 1 < ends.size(); ++e) {
      std::vector<Index> by, tensors, copies, keepers, roots, spared;
      for (const std::size_t number : showing_now.from(ends[e])) {
        const Showing& showing = shown[s][number];
        spared.insert(spared.end(), sparing[at(showing.tensor)].begin(), sparing[at(showing.tensor)].end());
        if (!is_inside && !tensors.empty()) {  // copies of what lies outside: one of them counts
          copies.push_back(showing.tensor);
          continue;
        }
        by.insert(by.end(), users[at(showing.tensor)].begin(), users[at(showing.tensor)].end());
        tensors.push_back(showing.tensor);
        roots.push_back(storages.storages[at(storages.storage_of[at(showing.tensor)])].root);
        if (kept[at(showing.tensor)]) keepers.push_back(producer[at(roots.back())]);
      }
      if (tensors.empty()) continue;
      const Index maker = producer[at(is_inside ? storages.storages[s].root : tensors.front())];
      sort_unique(by);
      sort_unique(spared);
      std::erase(by, maker);
      const bool keeps = !keepers.empty();
      const Index from = keeps ? *std::min_element(keepers.begin(), keepers.end()) : kNone;
      const auto [found, is_new] =
          known.try_emplace({maker, by, keeps, from, spared}, static_cast<Index>(items.size()));
      if (is_new) items.push_back({0, maker, by, keeps, from, storages.storages[s].root, ends[e], {}, spared});
      std::vector<Index>& all_roots = items[at(found->second)].roots;
      all_roots.insert(all_roots.end(), roots.begin(), roots.end());
      sort_unique(all_roots);
      items[at(found->second)].bytes += ends[e + 1] - ends[e];
      tensors.insert(tensors.end(), copies.begin(), copies.end());  // in which an op may write over it, too
      for (const Index t : tensors) items_of_[at(t)].push_back(found->second);
    }
  }
  for (Index i = 0; i < static_cast<Index>(items.size()); ++i) {
    if (items[at(i)].maker != kNone) makes[at(items[at(i)].maker)].push_back(i);
    for (const Index k : items[at(i)].users) uses[at(k)].push_back(i);
  }
}

// Per tensor, the ops that read it, and may write over others of their inputs, but not over it.
std::vector<std::vector<Index>> ContentsModel::sparing_ops(const Graph& graph, std::span<const Shared> possible) const {
  std::vector<bool> writes_over(waits.size(), false);
  for (const Shared& shared : possible)
    if (shared.how == Sharing::inplace) writes_over[at(shared.op)] = true;
  std::vector<std::vector<Index>> sparing(graph.tensors().size());
  for (Index k = 0; k < op_count(); ++k) {
    if (!writes_over[at(k)]) continue;
    std::vector<Index> over;
    for (const View& view : graph.op(k).inplace) over.push_back(view.input);
    sort_unique(over);
    for (const Index t : graph.op(k).inputs)
      if (!std::binary_search(over.begin(), over.end(), t)) sparing[at(t)].push_back(k);
  }
  return sparing;
}

void ContentsModel::add_overs(const Graph& graph, std::span<const Shared> possible) {
  std::vector<std::map<Index, Over>> by_output(waits.size());  // per op
  const auto holds = [](const std::vector<Index>& ops, Index k) {
    return std::binary_search(ops.begin(), ops.end(), k);
  };
  const auto may_lie_over = [&](Index k, const View& view, Bytes bytes, bool spares) {
    if (items_of_[at(view.output)].empty()) return;
    std::vector<Index> found = items_of_[at(view.input)];
    std::erase_if(found, [&](Index i) {  // what is not used is a copy, of which nothing counts and nothing dies
      return !holds(items[at(i)].users, k) || (spares && holds(items[at(i)].spared, k));
    });
    if (found.empty()) return;
    Over& over = by_output[at(k)][view.output];
    over.bytes = std::min(graph.tensor(view.output).bytes, over.bytes + bytes);  // of several inputs, all may be taken
    over.items.insert(over.items.end(), found.begin(), found.end());
  };
  for (const Shared& shared : possible)
    if (shared.how == Sharing::inplace)
      may_lie_over(shared.op, shared.view, graph.tensor(shared.view.output).bytes, true);
  for (Index k = 0; k < op_count(); ++k)
    for (const CommonBytes& common : common_bytes(graph, k, graph.op(k).inputs))
      may_lie_over(k, {common.output, common.input}, common.most, false);
  for (std::size_t k = 0; k < waits.size(); ++k) {
    for (auto& [output, over] : by_output[k]) {
      sort_unique(over.items);
      over_items[k].insert(over_items[k].end(), over.items.begin(), over.items.end());
      overs[k].push_back(std::move(over));
    }
    sort_unique(over_items[k]);
    over_at_most[k] = written_over(static_cast<Index>(k), [](Index) { return true; });
  }
}

OrderState::OrderState(const ContentsModel& model) : model_(model) {
  for (const Content& item : model.items) {
    left_.push_back(static_cast<Index>(item.users.size()));
    if (item.maker == kNone && (item.kept || !item.users.empty())) alive_ += item.bytes;
  }
}

Bytes OrderState::need(Index op) const {
  return alive_ + model_.making[at(op)] - model_.written_over(op, [&](Index i) { return is_last_use(i); });
}

Bytes OrderState::growth(Index op) const {
  Bytes growth = 0;
  for (const Index i : model_.makes[at(op)]) {
    const Content& item = model_.items[at(i)];
    if (item.kept || !item.users.empty()) growth += item.bytes;
  }
  for (const Index i : model_.uses[at(op)])
    if (is_last_use(i)) growth -= model_.items[at(i)].bytes;
  return growth;
}

void OrderState::run(Index op) {
  alive_ += growth(op);
  for (const Index i : model_.uses[at(op)]) --left_[at(i)];
}

void OrderState::undo(Index op) {
  for (const Index i : model_.uses[at(op)]) ++left_[at(i)];
  alive_ -= growth(op);
}

std::vector<Bytes> needs_of(const ContentsModel& model, std::span<const Index> order) {
  OrderState state(model);
  std::vector<Bytes> needs;
  needs.reserve(order.size());
  for (const Index op : order) {
    needs.push_back(state.need(op));
    state.run(op);
  }
  return needs;
}

}  // namespace memplan
