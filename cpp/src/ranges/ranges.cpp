#include "memplan/ranges.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/deadline.hpp"
#include "base/time_share.hpp"
#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/sharing_bound.hpp"
#include "memplan/verify.hpp"
#include "placing/best_so_far.hpp"
#include "problem/reduction.hpp"
#include "solve/attempt.hpp"

namespace memplan {

namespace {

constexpr double kShareOfLargest = 0.5;  // of a time limit

constexpr std::pair<Sharing, std::vector<View> Op::*> kByChoice[] = {
    {Sharing::inplace, &Op::inplace}, {Sharing::slice, &Op::slices}, {Sharing::concat, &Op::concats}};

using Relation = std::tuple<Sharing, Index, Index>;  // how, output, input; an output is of one op
using Relations = std::set<Relation>;

Relations possible(const Graph& graph) {
  Relations found;
  for (const Op& op : graph.ops())
    for (const auto& [how, views] : kByChoice)
      for (const View& view : op.*views) found.emplace(how, view.output, view.input);
  return found;
}

Relations shared(const Buffers& buffers) {
  Relations found;
  for (const Shared& each : buffers.shared) found.emplace(each.how, each.view.output, each.view.input);
  return found;
}

void keep_common(Relations& all, const Relations& others) {
  std::erase_if(all, [&](const Relation& relation) { return !others.contains(relation); });
}

// What ops may do besides what they must, in a plan with these roots: what is written over one name of bytes may be so
// over their other names.
struct Allowed {
  const Relations& relations;
  const std::vector<Index>& root_of_tensor;

  bool operator()(const Op& op, Sharing how, const View& view) const {
    if (how != Sharing::inplace) return relations.contains({how, view.output, view.input});
    return std::ranges::any_of(op.inplace, [&](const View& other) {
      return other.output == view.output && relations.contains({how, other.output, other.input}) &&
             root_of_tensor[at(other.input)] == root_of_tensor[at(view.input)];
    });
  }
};

constexpr auto kAnything = [](const Op&, Sharing, const View&) { return true; };

// The graph of some size with its ops as in a plan, and laid out as there; only views for which may(op, how, view)
// holds may still share bytes by choice.
template <class May>
Graph as_planned(const Graph& graph, const Graph& planned, const May& may) {
  const Graph ordered = reordered_like(graph, planned);
  GraphSpec spec{ordered.tensors(), {}, {}, planned.layout()};
  for (const Index t : ordered.outputs()) spec.outputs.push_back(ordered.tensor(t).name);
  for (Index k = 0; k < ordered.op_count(); ++k) {
    const Op& all = ordered.op(k);
    Op op = all;
    op.branch = planned.op(k).branch;
    for (const auto& [how, views] : kByChoice)
      std::erase_if(op.*views, [&](const View& view) { return !may(all, how, view); });
    spec.ops.push_back(spec_of(ordered, op));
  }
  return Graph(std::move(spec));
}

// The buffers of some size, where no more shares bytes than in the plan.
Buffers buffers_at(const RangePlan& range, const Graph& graph) {
  const Relations relations = shared(range.found.buffers);
  const Allowed as_there{relations, range.found.buffers.root_of_tensor};
  return buffers_of(as_planned(graph, *range.largest.graph, as_there), range.storage);
}

bool hold(const Problem& problem, std::span<const Bytes> offsets, Bytes peak) {
  return verify(problem, offsets, peak, 1).empty();
}

// Each buffer as low as it can be, in the order of these offsets.
std::vector<Bytes> lowered(const Problem& problem, std::span<const Bytes> order) {
  const Reduction reduction(problem, Reduction::LowBytes::kKept);
  PlanOptions from;
  from.warm = reduction.reduced(order);
  return reduction.restored(warm_plan(reduction.problem(), from, Deadline()).offsets);
}

class RangeSolver {
 public:
  RangeSolver(std::span<const SizedGraph> graphs, const ChosenOrder& order, const ChosenPlanner& planner,
              const StorageOptions& storage, const PlanOptions& options, const OnOrder& on_order)
      : graphs_(graphs),
        order_(order),
        planner_(planner),
        options_(options),
        on_order_(on_order),
        start_(options.start.value_or(std::chrono::steady_clock::now())),
        found_{graphs.back(), storage, {Buffers{Problem({}, {}, {}), {}, {}, {}, {}, {}, {}}, {}}, 0, {}} {}

  RangePlan run() {
    check_options(options_);
    share_alike();
    found_.orders.emplace_back(graphs_.size() - 1, found_.found.plan.offsets);
    for (std::size_t left = graphs_.size(); left > 0; --left) consider_order_of(left - 1, left);
    found_.largest.graph =
        std::make_shared<const Graph>(as_planned(*graphs_.back().graph, *found_.largest.graph, kAnything));
    const auto& [buffers, plan] = found_.found;
    throw_if_any(replay_all(*found_.largest.graph, buffers, plan.offsets, kListedViolations), planner_.planner);
    return std::move(found_);
  }

 private:
  PlanOptions options(double share) const {
    PlanOptions asked = options_;
    share_time(asked, options_.time_limit, start_, share);
    return asked;
  }

  // Plans the largest sizes, until all share bytes as it does: with what may at all sizes, with what then did, and apart.
  void share_alike() {
    const Graph& given = *graphs_.back().graph;
    Relations allowed = possible(given);
    for (const SizedGraph& each : graphs_) keep_common(allowed, possible(*each.graph));
    std::vector<Index> root_of_tensor = buffers_of(given, found_.storage).root_of_tensor;
    for (bool once = false;; once = true) {
      plan_largest(as_planned(given, given, Allowed{allowed, root_of_tensor}));
      const Buffers& own = found_.found.buffers;
      std::vector<Problem> problems;
      allowed = shared(own);
      root_of_tensor = own.root_of_tensor;
      bool alike = true;
      for (const SizedGraph& each : graphs_) {
        const Buffers there = buffers_at(found_, *each.graph);
        alike = alike && same_lives(there);
        keep_common(allowed, shared(there));
        problems.push_back(there.problem);
      }
      if (alike) return hold_for_all(problems);
      if (own.shared.empty())
        throw UnsupportedError("the network has other buffers at some sizes of the range; plan parts of it");
      if (once) allowed.clear();
    }
  }

  void plan_largest(Graph graph) {
    OrderedPlan ordered = solve_in_order(std::make_shared<const Graph>(std::move(graph)), order_, planner_,
                                         found_.storage, options(kShareOfLargest), {}, on_order_);
    found_.largest.graph = std::move(ordered.graph);
    found_.found = std::move(ordered.found);
    found_.order_bound = ordered.bound;
  }

  bool same_lives(const Buffers& buffers) const {
    const Problem &a = buffers.problem, &b = found_.found.buffers.problem;
    return buffers.buffer_of_tensor == found_.found.buffers.buffer_of_tensor &&
           std::ranges::equal(a.first(), b.first()) && std::ranges::equal(a.last(), b.last());
  }

  // Offsets that hold at all sizes: those of the plan, or of buffers that are as large as anywhere.
  void hold_for_all(const std::vector<Problem>& problems) {
    auto& [buffers, plan] = found_.found;
    if (std::ranges::all_of(problems, [&](const Problem& each) { return hold(each, plan.offsets, plan.peak); })) return;
    Problem::Columns columns = buffers.problem.columns();
    for (const Problem& problem : problems)
      for (Index b = 0; b < problem.count(); ++b) columns.size[at(b)] = std::max(columns.size[at(b)], problem.size(b));
    PlanOptions asked = options(kShareOfLargest);
    asked.capacity = {};
    const Plan wider = solve(buffers.problem.without_shapes().with_columns(std::move(columns)), planner_, asked);
    plan.offsets = wider.offsets;
    plan.peak = wider.peak;
    plan.optimal = plan.peak == plan.lower_bound;
    plan.winner = wider.winner;
    if (options_.capacity) require_fit(buffers.problem, *options_.capacity, plan, buffers);
  }

  // The order of a plan for one size, if those that are known need more there; of so many sizes that are left.
  void consider_order_of(std::size_t position, std::size_t left) {
    const SizePlan there = at_size(found_, graphs_[position]);
    if (there.found.plan.optimal) return;
    PlanOptions asked = options(1.0 / static_cast<double>(left));
    asked.capacity = there.found.plan.lower_bound;
    std::optional<Plan> own;
    try {
      own = solve(there.found.buffers.problem, planner_, asked);
    } catch (InfeasibleError& error) {
      own = std::move(error.plan);
    }
    if (own && own->peak < there.found.plan.peak) found_.orders.emplace_back(position, std::move(own->offsets));
  }

  const std::span<const SizedGraph> graphs_;
  const ChosenOrder& order_;
  const ChosenPlanner& planner_;
  const PlanOptions& options_;
  const OnOrder& on_order_;
  const std::chrono::steady_clock::time_point start_;
  RangePlan found_;
};

}  // namespace

RangePlan solve_range(std::span<const SizedGraph> graphs, const ChosenOrder& order, const ChosenPlanner& planner,
                      const StorageOptions& storage, const PlanOptions& options, const OnOrder& on_order) {
  if (graphs.empty()) throw std::invalid_argument("graphs must be of one size or more, got none");
  for (const SizedGraph& each : graphs) require_alike(graphs.back(), each);
  return RangeSolver(graphs, order, planner, storage, options, on_order).run();
}

RangePlan solve_range(std::span<const SizedGraph> graphs, std::string_view planner, const StorageOptions& storage,
                      const PlanOptions& options) {
  return solve_range(graphs, choose_order("given"), choose_planner(planner), storage, options);
}

SizePlan at_size(const RangePlan& range, const SizedGraph& graph) {
  require_alike(range.largest, graph);
  const Plan& whole = range.found.plan;
  auto ordered = std::make_shared<const Graph>(as_planned(*graph.graph, *range.largest.graph, kAnything));
  SizePlan found{ordered, {buffers_at(range, *ordered), whole}};
  const Problem& problem = found.found.buffers.problem;
  if (problem.count() != range.found.buffers.problem.count() || !hold(problem, whole.offsets, whole.peak))
    throw UnsupportedError("buffers are larger or others than its offsets have room for; plan parts of the range");
  Plan& plan = found.found.plan;
  plan.peak = found.fixed = peak_of(problem, whole.offsets);
  found.like = range.orders.front().first;
  for (const auto& [like, order] : range.orders) {
    std::vector<Bytes> offsets = lowered(problem, order);
    const Bytes peak = peak_of(problem, offsets);
    if (peak >= plan.peak || !hold(problem, offsets, peak)) continue;
    plan.offsets = std::move(offsets);
    plan.peak = peak;
    found.like = like;
  }
  plan.lower_bound = sharing_bound(*ordered, range.storage);
  plan.placement_bound = std::max(plan.lower_bound, load(problem));
  plan.optimal = plan.peak == plan.lower_bound;
  if (const auto faults = replay_all(*ordered, found.found.buffers, plan.offsets, 1); !faults.empty())
    throw InvalidPlanError("the plan at " + graph.sizes + " is wrong: " + faults.front().message);
  return found;
}

}  // namespace memplan
