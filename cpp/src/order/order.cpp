#include "memplan/order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "memplan/bounds.hpp"
#include "memplan/buffers.hpp"
#include "memplan/errors.hpp"
#include "memplan/happens_before.hpp"
#include "order/bound.hpp"
#include "order/contents_model.hpp"
#include "order/cuts.hpp"
#include "order/lists.hpp"
#include "order/windows.hpp"
#include "placing/deadline.hpp"

namespace memplan {

namespace {

std::vector<Index> given_order(Index count) {
  std::vector<Index> ops(at(count));
  std::iota(ops.begin(), ops.end(), Index{0});
  return ops;
}

// The largest need of an order, and how many ops have it: what a better order has less of.
struct Height {
  Bytes load = 0;
  std::int64_t peaks = 0;

  bool operator<(const Height& other) const { return load != other.load ? load < other.load : peaks < other.peaks; }
};

Height height_of(std::span<const Bytes> needs) {
  Height height;
  for (const Bytes need : needs) {
    if (need > height.load) height = {need, 0};
    height.peaks += need == height.load ? 1 : 0;
  }
  return height;
}

struct Candidate {
  std::string name;
  std::vector<Index> ops;
  Height height;
};

class OrderSearch {
 public:
  OrderSearch(const ContentsModel& model, const OrderOptions& options, const Deadline& deadline)
      : model_(model), deadline_(deadline), cuts_(model, deadline), work_left_(options.work) {}

  // The given order, those of lists, and the best of these made better; the best ones first.
  std::vector<Candidate> run(std::vector<Index> given) {
    consider("given", std::move(given));
    try {
      for (ListOrder& list : list_orders(model_)) {
        deadline_.check();
        consider(std::string(list.name), std::move(list.ops));
      }
      const std::vector<Candidate> starts = best(kStarts);
      for (const Candidate& start : starts) improve(start);
    } catch (const InterruptedError&) {
      interrupted_ = true;
    } catch (const TimeLimitError&) {
    }
    return best(candidates_.size());
  }

  bool interrupted() const { return interrupted_; }

 private:
  static constexpr std::size_t kStarts = 3;  // orders that are made better
  static constexpr std::size_t kStates = 300'000;
  static constexpr std::size_t kSizes[] = {12, 32, 80, 200, 256};

  void consider(std::string name, std::vector<Index> ops) {
    const Height height = height_of(needs_of(model_, ops));
    candidates_.push_back({std::move(name), std::move(ops), height});
  }

  std::vector<Candidate> best(std::size_t count) const {
    std::vector<Candidate> sorted = candidates_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Candidate& a, const Candidate& b) { return a.height < b.height; });
    sorted.resize(std::min(count, sorted.size()));
    return sorted;
  }

  // Lowers peak after peak, until none can be lowered, or one is proven to be needed.
  void improve(Candidate order) {
    const std::string name = order.name + "+search";
    bool better = false;
    try {
      while (work_left_ > 0) {
        deadline_.check();
        const std::vector<Bytes> needs = needs_of(model_, order.ops);
        const auto peak = static_cast<std::size_t>(std::max_element(needs.begin(), needs.end()) - needs.begin());
        const Index op = order.ops[peak];
        const std::optional<Cut> cut = cuts_.before(op, work_left_);
        if (!cut || cut->alive + model_.making[at(op)] - model_.over_at_most[at(op)] >= order.height.load) break;
        if (!change_by_cut(order, op, *cut) && !change_by_window(order, needs, peak)) break;
        better = true;
      }
    } catch (const EndedError&) {
      keep(name, order, better);
      throw;
    }
    keep(name, order, better);
  }

  void keep(const std::string& name, const Candidate& order, bool better) {
    if (better) candidates_.push_back({name, order.ops, order.height});
  }

  bool take_if_better(Candidate& order, std::vector<Index> ops) {
    work_left_ -= 2 * static_cast<std::int64_t>(ops.size());
    const Height height = height_of(needs_of(model_, ops));
    if (!(height < order.height)) return false;
    order.ops = std::move(ops);
    order.height = height;
    return true;
  }

  // What may run before the op with the fewest bytes alive runs first, then the op, at once or in its place.
  bool change_by_cut(Candidate& order, Index op, const Cut& cut) {
    std::vector<Index> ops = order.ops;
    const auto first = std::stable_partition(ops.begin(), ops.end(), [&](Index k) { return cut.in_set[at(k)]; });
    if (take_if_better(order, ops)) return true;
    std::rotate(first, std::find(first, ops.end(), op), std::find(first, ops.end(), op) + 1);
    return take_if_better(order, std::move(ops));
  }

  bool change_by_window(Candidate& order, const std::vector<Bytes>& needs, std::size_t peak) {
    const std::size_t count = order.ops.size();
    for (const std::size_t size : kSizes) {
      for (const std::size_t before : {size / 2, size / 4, 3 * size / 4}) {
        if (work_left_ <= 0) return false;
        const std::size_t begin = peak - std::min(peak, before), end = std::min(count, begin + size);
        const Bytes limit = *std::max_element(needs.begin() + static_cast<std::ptrdiff_t>(begin),
                                              needs.begin() + static_cast<std::ptrdiff_t>(end));
        OrderState state(model_);
        for (std::size_t k = 0; k < begin; ++k) state.run(order.ops[k]);
        std::int64_t work = static_cast<std::int64_t>(begin);
        const auto window = std::span<const Index>(order.ops).subspan(begin, end - begin);
        const auto found = window_order(model_, state, window, limit, kStates, deadline_, work);
        work_left_ -= work;
        if (!found) continue;
        std::vector<Index> ops = order.ops;
        std::copy(found->begin(), found->end(), ops.begin() + static_cast<std::ptrdiff_t>(begin));
        if (take_if_better(order, std::move(ops))) return true;
      }
      if (size >= count) return false;
    }
    return false;
  }

  const ContentsModel& model_;
  const Deadline& deadline_;
  Cuts cuts_;
  std::int64_t work_left_;
  bool interrupted_ = false;
  std::vector<Candidate> candidates_;
};

Bytes load_of(const Graph& graph, const StorageOptions& storage) { return load(buffers_of(graph, storage).problem); }

}  // namespace

Graph reordered(const Graph& graph, const std::vector<Index>& ops) {
  std::vector<Index> place(graph.ops().size(), kNone);
  for (std::size_t k = 0; k < ops.size(); ++k) {
    if (ops[k] < 0 || ops[k] >= graph.op_count() || place[at(ops[k])] != kNone)
      throw GraphError("an order must have each of the " + std::to_string(graph.op_count()) + " ops once");
    place[at(ops[k])] = static_cast<Index>(k);
  }
  if (ops.size() != graph.ops().size())
    throw GraphError("an order must have each of the " + std::to_string(graph.op_count()) + " ops once, got " +
                     std::to_string(ops.size()));
  const std::vector<std::vector<Index>> waits = waits_of(graph);
  for (Index k = 0; k < graph.op_count(); ++k)
    for (const Index before : waits[at(k)])
      if (place[at(before)] > place[at(k)])
        throw GraphError("op " + quoted(graph.op(k).name) + " must come after op " + quoted(graph.op(before).name));
  GraphSpec spec{graph.tensors(), {}, {}};
  for (const Index k : ops) spec.ops.push_back(spec_of(graph, graph.op(k)));
  for (const Index t : graph.outputs()) spec.outputs.push_back(graph.tensor(t).name);
  return Graph(std::move(spec));
}

OpOrder best_order(const Graph& graph, const StorageOptions& storage, const OrderOptions& options) {
  OpOrder order{given_order(graph.op_count()), load_of(graph, storage), 0, "given", false};
  if (!has_contents_model(graph)) return order;
  const ContentsModel model(graph, storage);
  PlanOptions limits;
  limits.time_limit = options.time_limit;
  limits.stop = options.stop;
  const Deadline deadline(limits);
  OrderSearch search(model, options, deadline);
  const std::vector<Candidate> found = search.run(order.ops);
  order.bound = bound_of(model, found.front().ops, options.work, deadline).bytes;
  order.interrupted = search.interrupted();
  constexpr std::size_t kLooks = 4;  // at what sharing makes of an order
  std::size_t looks = 0;
  for (const Candidate& candidate : found) {
    if (looks == kLooks || order.load <= std::max(order.bound, candidate.height.load)) break;
    if (candidate.name == "given") continue;
    ++looks;
    const Bytes load = load_of(reordered(graph, candidate.ops), storage);
    if (load < order.load) {
      order.ops = candidate.ops;
      order.load = load;
      order.found_by = candidate.name;
    }
  }
  return order;
}

}  // namespace memplan
