#include "order/bodies.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "memplan/errors.hpp"
#include "order/bound.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kWorkOfBound = 15'000'000;  // where bodies have no proof

// Ops that run one after the other: an op, or a body.
struct OpRun {
  std::vector<Index> ops;  // in the order in which they run
  bool is_body = false;
  Bytes extra = 0;       // of a body: the most bytes needed inside, less those that are alive before it
  bool is_least = true;  // no other order inside has less extra
};

struct ListedOps {  // of ops as they are listed
  Index begin;
  Index end;

  bool has(Index op) const { return op != kNone && begin <= op && op < end; }
  Index size() const { return end - begin; }
};

// The ops outside of a range that run before it, as one of its ops waits for them; ascending.
std::vector<Index> ops_before(const ContentsModel& all, ListedOps range) {
  std::vector<Index> before;
  for (Index k = range.begin; k < range.end; ++k)
    std::ranges::copy_if(all.waits[at(k)], std::back_inserter(before), [&](Index other) { return !range.has(other); });
  sort_unique(before);
  return before;
}

// Whether no op that runs after the range uses a content, or may.
bool ends_in(const Content& item, ListedOps range, std::span<const Index> before) {
  return !item.kept && std::ranges::all_of(
                           item.users, [&](Index k) { return range.has(k) || std::ranges::binary_search(before, k); });
}

// The model of a range of ops in which runs are the ops. Contents that are used elsewhere too stay alive.
class RunModel {
 public:
  RunModel(const ContentsModel& all, ListedOps range, std::span<const OpRun> runs)
      : model(runs.size()),
        all_(all),
        range_(range),
        runs_(runs),
        before_(ops_before(all, range)),
        run_of_(at(range.size()), kNone) {
    for (std::size_t u = 0; u < runs.size(); ++u)
      for (const Index k : runs[u].ops) run_of_[at(k - range.begin)] = static_cast<Index>(u);
    add_waits();
    for (const Index i : contents_of_range()) add_item(i);
    for (Index u = 0; u < model.op_count(); ++u) add_op(u);
  }

  ContentsModel model;

 private:
  Index run_of(Index op) const { return range_.has(op) ? run_of_[at(op - range_.begin)] : kNone; }

  void add_waits() {
    for (Index k = range_.begin; k < range_.end; ++k)
      for (const Index before : all_.waits[at(k)])
        if (range_.has(before) && run_of(before) != run_of(k)) model.waits[at(run_of(k))].push_back(run_of(before));
    for (Index u = 0; u < model.op_count(); ++u) {
      sort_unique(model.waits[at(u)]);
      for (const Index before : model.waits[at(u)]) model.followers[at(before)].push_back(u);
    }
  }

  std::vector<Index> contents_of_range() const {
    std::vector<Index> contents;
    if (at(range_.size()) == all_.waits.size()) {
      contents.resize(all_.items.size());
      std::iota(contents.begin(), contents.end(), Index{0});
      return contents;
    }
    for (Index k = range_.begin; k < range_.end; ++k) {
      contents.insert(contents.end(), all_.makes[at(k)].begin(), all_.makes[at(k)].end());
      contents.insert(contents.end(), all_.uses[at(k)].begin(), all_.uses[at(k)].end());
    }
    sort_unique(contents);
    return contents;
  }

  void add_item(Index i) {
    Content item = all_.items[at(i)];
    item.kept = !ends_in(item, range_, before_);
    item.maker = run_of(item.maker);
    item.kept_from = run_of(item.kept_from) != kNone ? run_of(item.kept_from) : item.maker;
    to_runs(item.users);
    std::erase(item.users, item.maker);
    std::erase_if(item.spared, [&](Index k) { return !range_.has(k) || runs_[at(run_of(k))].is_body; });
    to_runs(item.spared);
    const bool is_inside = item.maker != kNone && item.users.empty() && !item.kept && runs_[at(item.maker)].is_body;
    if (is_inside) return;
    const auto number = static_cast<Index>(model.items.size());
    if (item.maker != kNone) model.makes[at(item.maker)].push_back(number);
    for (const Index u : item.users) model.uses[at(u)].push_back(number);
    item_of_.emplace_back(i, number);
    model.items.push_back(std::move(item));
  }

  void to_runs(std::vector<Index>& ops) const {
    std::erase_if(ops, [&](Index k) { return !range_.has(k); });
    for (Index& k : ops) k = run_of(k);
    sort_unique(ops);
  }

  void add_op(Index u) {
    const OpRun& run = runs_[at(u)];
    if (run.is_body) {
      model.making[at(u)] = run.extra;
      return;
    }
    const Index k = run.ops.front();
    model.making[at(u)] = all_.making[at(k)];
    for (Over over : all_.overs[at(k)]) {
      to_items(over.items);
      model.overs[at(u)].push_back(std::move(over));
    }
    model.over_items[at(u)] = all_.over_items[at(k)];
    to_items(model.over_items[at(u)]);
    model.over_at_most[at(u)] = model.written_over(u, [](Index) { return true; });
  }

  void to_items(std::vector<Index>& items) const {  // of an op by itself, which the model has
    for (Index& i : items) i = std::ranges::lower_bound(item_of_, i, {}, &std::pair<Index, Index>::first)->second;
  }

  const ContentsModel& all_;
  ListedOps range_;
  std::span<const OpRun> runs_;
  std::vector<Index> before_;
  std::vector<Index> run_of_;                     // per op of the range
  std::vector<std::pair<Index, Index>> item_of_;  // of all items and of the model; ascending
};

class BodySearch {
 public:
  BodySearch(const Graph& graph, const ChosenOrder& chosen, const OrderTask& task)
      : graph_(graph), chosen_(chosen), task_(task) {}

  FoundOrders run() {
    const ListedOps all{0, graph_.op_count()};
    const std::vector<OpRun> runs = runs_in(all, 0);
    const RunModel of(task_.model, all, runs);
    const bool is_proof = std::ranges::all_of(runs, &OpRun::is_least);
    const OnOrder relay = [&](const OrderProgress& progress) {
      task_.tell.order(progress.found_by, progress.needed);
      if (is_proof) task_.tell.bound(progress.bound);
    };
    OrderReporter tell(relay);
    FoundOrders found = chosen_.order.run({of.model, task_.set, task_.deadline, tell});
    for (FoundOrder& order : found.best_first) {
      order.ops = ops_of(runs, order.ops);
      if (order.name == "given" && !std::ranges::is_sorted(order.ops)) order.name = "given+bodies";
    }
    if (chosen_.order.name == "best") found.best_first.push_back({"given", as_given(task_.model)});
    found.interrupted |= interrupted_;
    if (found.bound > 0 && !is_proof) bound_without_bodies(found);
    return found;
  }

 private:
  std::vector<OpRun> runs_in(ListedOps range, std::size_t depth) {
    std::vector<OpRun> runs;
    for (Index k = range.begin; k < range.end;) {
      const std::string path = path_of(k, depth);
      if (path.empty()) {
        runs.push_back({{k++}});
        continue;
      }
      Index end = k;
      while (end < range.end && path_of(end, depth) == path) ++end;
      runs.push_back(end - k == 1 ? OpRun{{k}} : searched({k, end}, depth + 1));
      k = end;
    }
    return runs;
  }

  // The body of an op that is inside of `depth` others; empty if it is in no such body.
  std::string path_of(Index op, std::size_t depth) const {
    const std::string& body = graph_.op(op).body;
    std::size_t end = 0;
    for (std::size_t passed = 0; passed <= depth; ++passed) {
      if (end >= body.size()) return {};
      end = std::min(body.find('/', end + (passed > 0 ? 1 : 0)), body.size());
    }
    return body.substr(0, end);
  }

  OpRun searched(ListedOps range, std::size_t depth) {
    const std::vector<OpRun> runs = runs_in(range, depth);
    const RunModel of(task_.model, range, runs);
    const OnOrder nobody = {};
    OrderReporter silent(nobody);
    const FoundOrders found = chosen_.order.run({of.model, task_.set, task_.deadline, silent});
    interrupted_ |= found.interrupted;
    const std::vector<Index>& order = found.best_first.front().ops;
    const Bytes before = OrderState(of.model).alive();
    const Bytes most = std::ranges::max(needs_of(of.model, order));
    const bool is_least =
        found.bound >= most && std::ranges::all_of(runs, &OpRun::is_least) && all_die_at_the_end(range);
    return {ops_of(runs, order), true, most - before, is_least};
  }

  // Whether contents that are used elsewhere too stay alive while the last op of the range runs, and so all others.
  bool all_die_at_the_end(ListedOps range) const {
    const Index last = range.end - 1;
    const std::vector<Index> before = ops_before(task_.model, range);
    const auto ends_late = [&](Index i) {
      const Content& item = task_.model.items[at(i)];
      if (range.has(item.maker) || item.kept) return true;
      if (ends_in(item, range, before)) return true;
      return std::ranges::binary_search(item.users, last) &&
             !std::ranges::binary_search(task_.model.over_items[at(last)], i);
    };
    bool all = true;
    for (Index k = range.begin; k < range.end && all; ++k)
      all = std::ranges::all_of(task_.model.uses[at(k)], ends_late);
    return all && waits_for_all(last, range);
  }

  bool waits_for_all(Index last, ListedOps range) const {
    std::vector<bool> seen(at(range.size()), false);
    std::vector<Index> waiting = {last};
    Index count = 1;
    while (!waiting.empty()) {
      const Index k = waiting.back();
      waiting.pop_back();
      for (const Index before : task_.model.waits[at(k)]) {
        if (!range.has(before) || seen[at(before - range.begin)]) continue;
        seen[at(before - range.begin)] = true;
        waiting.push_back(before);
        ++count;
      }
    }
    return count == range.size();
  }

  static std::vector<Index> ops_of(std::span<const OpRun> runs, std::span<const Index> order) {
    std::vector<Index> ops;
    for (const Index u : order) ops.insert(ops.end(), runs[at(u)].ops.begin(), runs[at(u)].ops.end());
    return ops;
  }

  // What holds for every order of the graph without its bodies holds for those with them.
  void bound_without_bodies(FoundOrders& found) const {
    found.bound = 0;
    try {
      found.bound = bytes_of_bound(task_.model, found.best_first.front().ops, kWorkOfBound, task_.deadline);
    } catch (const InterruptedError&) {
      found.interrupted = true;
    }
    task_.tell.bound(found.bound);
  }

  const Graph& graph_;
  const ChosenOrder& chosen_;
  const OrderTask& task_;
  bool interrupted_ = false;
};

}  // namespace

FoundOrders orders_with_bodies(const Graph& graph, const ChosenOrder& chosen, const OrderTask& task) {
  return BodySearch(graph, chosen, task).run();
}

}  // namespace memplan
