#include "memplan/solve_split.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <utility>

#include "base/deadline.hpp"
#include "base/time_share.hpp"
#include "fit/fit_solver.hpp"
#include "memplan/bounds.hpp"
#include "memplan/buffers.hpp"
#include "memplan/errors.hpp"
#include "memplan/infeasible.hpp"
#include "memplan/order.hpp"
#include "split/split_search.hpp"

namespace memplan {

namespace {

constexpr double kRounding = 1e-12;  // of costs, as a share

// Per region, what it does; views cost no call.
std::vector<SplitChange> changes_of(const Graph& graph, const std::vector<OpFacts>& facts, const SplitState& state,
                                    const std::vector<OpFacts>& split_facts, double call) {
  std::vector<Index> region_of(graph.ops().size(), kNone);
  std::vector<SplitChange> changes;
  std::vector<double> whole;  // per region, the cost of its ops
  for (const Region& region : state.regions) {
    SplitChange change;
    change.pieces = region.pieces;
    for (const RegionOp& one : region.ops) {
      const Op& op = graph.op(one.op);
      region_of[at(one.op)] = static_cast<Index>(changes.size());
      change.ops.push_back(op.name);
      change.loops.push_back(one.loop);
      if (one.again) change.again.push_back(op.name);
      if (std::ranges::find(state.split->reruns, one.op) != state.split->reruns.end()) change.reruns.push_back(op.name);
      change.cost -= facts[at(one.op)].cost + (op.aliases.empty() ? call : 0);
      if (!op.aliases.empty()) continue;
      for (const Index t : op.outputs)
        if (!state.split->graph.find(graph.tensor(t).name)) {
          change.tensors.push_back(graph.tensor(t).name);
          change.bytes += graph.tensor(t).bytes;
        }
      for (const Index t : op.outputs)
        if (std::ranges::binary_search(state.split->blocks, t)) change.blocks.push_back(graph.tensor(t).name);
    }
    whole.push_back(-change.cost);
    changes.push_back(std::move(change));
  }
  for (std::size_t k = 0; k < state.split->pieces.size(); ++k) {
    const Piece& piece = state.split->pieces[k];
    const Index region = region_of[at(piece.of)];
    if (region == kNone) continue;
    SplitChange& change = changes[at(region)];
    change.cost += split_facts[k].cost;
    if (state.split->graph.op(static_cast<Index>(k)).aliases.empty()) change.cost += call;
    if (piece.does == Piece::Does::keep)
      change.kept +=
          piece.writes.front().rows.size() *
          (graph.tensor(state.split->tensor_of[at(piece.writes.front().tensor)]).bytes /
           rows_of(graph.tensor(state.split->tensor_of[at(piece.writes.front().tensor)]), piece.writes.front().axes));
  }
  const auto of = [&](Index t) { return state.split->tensor_of[at(t)]; };
  for (std::size_t k = 0; k < state.split->pieces.size(); ++k) {
    const Index region = region_of[at(state.split->pieces[k].of)];
    if (region == kNone) continue;
    for (const View& view : state.split->graph.op(static_cast<Index>(k)).overwrites)
      if (of(view.output) != of(view.input))
        changes[at(region)].over.emplace_back(graph.tensor(of(view.output)).name, graph.tensor(of(view.input)).name);
  }
  for (std::size_t r = 0; r < changes.size(); ++r)  // parts may add up to a little more or less than the whole
    if (changes[r].cost < kRounding * whole[r]) changes[r].cost = 0;
  return changes;
}

}  // namespace

FoundSplit find_split(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                      const SplitOptions& options) {
  const Deadline deadline(options);
  SplitSearch search(graph, storage, {facts, options.call, options.byte, options.max_pieces}, options.work, deadline);
  const Bytes capacity = options.capacity.value_or(0);
  SplitState state = search.reached(capacity, options.again);
  state = search.with_less(std::move(state), std::max(state.judged.load, capacity), options.again);
  FoundSplit found;
  found.facts = facts_of(*state.split, graph, facts, options.byte);
  found.changes = changes_of(graph, facts, state, found.facts, options.call);
  found.load = state.judged.load;
  for (const SplitChange& change : found.changes) found.added_cost += change.cost;
  found.pieces = state.split->pieces;
  found.graph = std::shared_ptr<const Graph>(state.split, &state.split->graph);
  return found;
}

namespace {

constexpr Bytes kLeftFree = 100;           // a part of the capacity that loads leave, for gaps between what is placed
constexpr int kMostAsked = 4;              // loads that are asked for, until the plan fits too
constexpr double kPartUnsplit = 0.3;       // of the time, without pieces
constexpr double kPartOfPieces = 0.7;      // of what is left, to find them
constexpr double kPartOfReordering = 0.3;  // of what is left, to find one of the ops
constexpr double kPartOfBoth = 0.6;        // of the time, before what runs again gets the rest
constexpr double kPartOfFirst = 0.5;       // of the time, for the loops of views as they are given
constexpr double kWorth = 0.01;            // of the peak, for which the other order of them is taken
constexpr std::int64_t kShareOfFits = 8, kShareOfLeast = 32;  // a part of the work for each graph that is made to fit
constexpr std::int64_t kSearches = 4;                         // and for each search of regions but the first
constexpr double kLittleGained = 0.5;  // of the unchanged peak: if pieces leave more, reruns get all of the work
// Of placing pieces within a capacity: if that fails, a lower load is easier to place than to try for longer.
constexpr std::int64_t kEffort = 20'000'000, kEffortPerTensor = 50'000;
constexpr Index kFewer[] = {16, 4};  // pieces, where ops run again or tensors move, whatever pieces there are

class SplitSolver {
 public:
  SplitSolver(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
              const FitOptions& fit, const SplitOptions& split, bool others, const ChosenPlanner& planner)
      : graph_(std::move(graph)),
        facts_(facts),
        storage_(storage),
        fit_(fit),
        split_(split),
        others_(others),
        planner_(planner),
        begin_(split.start.value_or(std::chrono::steady_clock::now())) {}

  SplitPlan run(bool reorder) {
    const Bytes floor = split_floor(*graph_, storage_);
    if (split_.capacity && floor > *split_.capacity) {
      InfeasibleError error("no plan fits " + std::to_string(*split_.capacity) +
                            " bytes: while an op runs one iteration, " + std::to_string(floor) +
                            " bytes are in use, in whatever pieces");
      error.capacity = *split_.capacity;
      error.lower_bound = floor;
      throw error;
    }
    std::optional<SplitPlan> best;
    std::optional<InfeasibleError> refused;
    const auto consider = [&](auto&& make) {
      try {
        std::optional<SplitPlan> found = make();
        if (!found) return;
        const bool lower = !best || (split_.capacity ? found->fitted.added_cost <= best->fitted.added_cost
                                                     : found->fitted.found.plan.peak <= best->fitted.found.plan.peak);
        if (lower) best = std::move(*found);
      } catch (const InfeasibleError& error) {
        refused = error;
      } catch (const EndedError&) {
        if (!best) throw;
      }
    };
    const bool enough = split_.capacity && load_of(*graph_) <= *split_.capacity;
    if (others_ || reorder || enough) {
      consider([&] { return std::optional(SplitPlan{fitted(graph_, facts_, reorder, kPartUnsplit), {}, {}, {}, {}}); });
      const bool ended = split_.time_limit && seconds_since(begin_) > kPartUnsplit * *split_.time_limit;
      if (!ended) fitted_.emplace_back();  // in no pieces, in either order
    }
    if (!best || !split_.capacity || best->fitted.added_cost > 0) {
      const auto consider_pieces = [&] {
        // Rows that are made again mislead the search where none need be.
        consider([&] { return in_pieces(false, split_.max_pieces); });
        if (split_.again) consider([&] { return in_pieces(true, split_.max_pieces); });
        for (const Index most : kFewer)
          if (split_.capacity && least_load_ > *split_.capacity && most < pieces_)
            consider([&] { return in_pieces(false, most); });
      };
      consider_pieces();
      if (reorder) {
        reorder_ops();
        if (reordered_) consider_pieces();
      }
    }
    if (!best) throw split_.capacity ? none_found(floor, *refused) : *refused;
    best->fitted.cost_bound = 0;
    best->fitted.load_bound = std::min(floor, best->fitted.found.plan.peak);
    return std::move(*best);
  }

 private:
  InfeasibleError none_found(Bytes floor, InfeasibleError error) const {
    InfeasibleError none("no plan was found within " + std::to_string(*split_.capacity) +
                         " bytes: in pieces, the least load found is " + std::to_string(least_load_) +
                         " bytes, and while an op runs one iteration of a loop, " + std::to_string(floor) +
                         " bytes are in use in any");
    none.capacity = *split_.capacity;
    none.lower_bound = floor;
    none.plan = std::move(error.plan);
    none.buffers = std::move(error.buffers);
    none.graph = std::move(error.graph);
    return none;
  }

  Bytes load_of(const Graph& graph) const { return load(buffers_of(graph, storage_).problem); }

  void limit(Limits& part, double share) const { share_time(part, split_.time_limit, begin_, share); }

  FittedPlan fitted(const std::shared_ptr<const Graph>& graph, const std::vector<OpFacts>& facts, bool reorder,
                    double share) const {
    FitOptions options = fit_;
    options.capacity = split_.capacity.value_or(0);
    limit(options, share);
    options.work /= split_.capacity ? kShareOfFits : kShareOfLeast;
    if (split_.capacity) {
      const ChosenPlanner planner = graph == graph_ ? planner_ : with_little_effort(*graph);
      return solve_changed(graph, facts, storage_, options, reorder, planner);
    }
    return solve_changed_least(graph, facts, storage_, options, reorder, planner_);
  }

  // The planner, with less effort than usual unless the caller has set it.
  ChosenPlanner with_little_effort(const Graph& graph) const {
    ChosenPlanner planner = planner_;
    const auto count = static_cast<std::int64_t>(graph.tensors().size());
    for (const Parameter& parameter : planner_.planner.parameters)
      if (parameter.name == "effort")
        planner.set.emplace_back(parameter.name, std::max(kEffort, kEffortPerTensor * count));
    return planner;
  }

  // None if these pieces were made to fit before.
  std::optional<SplitPlan> in_pieces(bool again, Index most) {
    SplitOptions options = split_;
    options.again = again;
    options.max_pieces = most;
    if (options.capacity) *options.capacity -= *options.capacity / kLeftFree;
    if (searched_++ > 0) options.work /= kSearches;
    std::optional<InfeasibleError> refused;
    for (int asked = 1;; ++asked) {
      limit(options, kPartOfPieces);
      FoundSplit found = find_split(*graph_, facts_, storage_, options);
      least_load_ = std::min(least_load_, found.load);
      pieces_ = 0;
      for (const SplitChange& change : found.changes) pieces_ = std::max(pieces_, change.pieces);
      if (std::find(fitted_.begin(), fitted_.end(), found.changes) != fitted_.end()) {
        if (refused) throw *refused;
        return std::nullopt;
      }
      fitted_.push_back(found.changes);
      try {
        SplitPlan plan{fitted(found.graph, found.facts, false, 1), found.changes, graph_, found.graph, found.pieces};
        plan.fitted.added_cost += found.added_cost;
        plan.fitted.reordered = plan.fitted.reordered || reordered_;
        return plan;
      } catch (const InfeasibleError& error) {
        const bool fits = split_.capacity && found.load <= *split_.capacity && error.plan;
        if (!fits || asked == kMostAsked || *options.capacity == 0) throw;
        refused = error;
        options.capacity = next_load(*options.capacity, found.load, *split_.capacity, error);
      }
    }
  }

  // From now on, ops run in the order of the least load that is found.
  void reorder_ops() {
    OrderOptions options;
    limit(options, kPartOfReordering);
    options.stop = split_.stop;
    const OpOrder order = best_order(*graph_, storage_, options);
    if (order.found_by == "given") return;
    std::vector<OpFacts> facts;
    for (const Index k : order.ops) facts.push_back(facts_[at(k)]);
    graph_ = std::make_shared<const Graph>(reordered(*graph_, order.ops));
    facts_ = std::move(facts);
    reordered_ = true;
    std::erase_if(fitted_, [](const std::vector<SplitChange>& changes) { return !changes.empty(); });
  }

  std::shared_ptr<const Graph> graph_;
  std::vector<OpFacts> facts_;
  const StorageOptions& storage_;
  const FitOptions& fit_;
  const SplitOptions& split_;
  bool others_;
  const ChosenPlanner& planner_;
  const std::chrono::steady_clock::time_point begin_;
  bool reordered_ = false;
  std::vector<std::vector<SplitChange>> fitted_;  // what was made to fit, in this order of the ops
  Bytes least_load_ = kMaxBytes;                  // in pieces
  int searched_ = 0;
  Index pieces_ = 0;  // of a region, at most, in what was found last
};

// The graph with those loops of its views first that have the most iterations; none if they are so already.
std::shared_ptr<const Graph> finest_first(const Graph& graph) {
  GraphSpec spec{graph.tensors(), {}, {}, graph.layout()};
  bool other = false;
  for (const Op& op : graph.ops()) {
    OpSpec one = spec_of(graph, op);
    if (!op.aliases.empty())
      std::stable_sort(one.loops.begin(), one.loops.end(),
                       [](const Loop& a, const Loop& b) { return a.extent > b.extent; });
    other = other || one.loops != op.loops;
    spec.ops.push_back(std::move(one));
  }
  if (!other) return nullptr;
  for (const Index t : graph.outputs()) spec.outputs.push_back(graph.tensor(t).name);
  return std::make_shared<const Graph>(std::move(spec));
}

// A region takes the first loop of a view that fits. Its rows may be samples, or tokens of all samples: neither leads
// further in every network, so both are tried.
SplitPlan in_either(const std::shared_ptr<const Graph>& graph, const std::vector<OpFacts>& facts,
                    const StorageOptions& storage, const FitOptions& fit, const SplitOptions& split, bool others,
                    bool reorder, const ChosenPlanner& planner) {
  const auto begin = split.start.value_or(std::chrono::steady_clock::now());
  const std::shared_ptr<const Graph> other = finest_first(*graph);
  const auto solved = [&](const std::shared_ptr<const Graph>& one, double share) {
    SplitOptions options = split;
    share_time(options, split.time_limit, begin, share);
    return SplitSolver(one, facts, storage, fit, options, others, planner).run(reorder);
  };
  if (!other) return solved(graph, 1);
  std::optional<SplitPlan> first;
  try {
    first = solved(graph, kPartOfFirst);
  } catch (const InfeasibleError& error) {
    if (error.proven()) throw;
  }
  if (!first) return solved(other, 1);
  if (split.capacity) return std::move(*first);
  SplitPlan second = solved(other, 1);
  const auto peak = static_cast<double>(first->fitted.found.plan.peak);
  return static_cast<double>(second.fitted.found.plan.peak) < (1 - kWorth) * peak ? std::move(second)
                                                                                  : std::move(*first);
}

}  // namespace

SplitPlan solve_split(std::shared_ptr<const Graph> graph, const std::vector<OpFacts>& facts,
                      const StorageOptions& storage, const FitOptions& fit, const SplitOptions& split, bool others,
                      bool reorder, const ChosenPlanner& planner, const std::optional<AsItIs>& as_it_is) {
  const auto begin = split.start.value_or(std::chrono::steady_clock::now());
  FitOptions part = fit;
  static_cast<Limits&>(part) = split;
  part.time_limit = share_of(split.time_limit, kPartUnsplit);
  std::optional<FittedPlan> given =
      try_as_it_is(as_it_is.value_or(AsItIs{graph, storage}), planner, split.capacity, part).plan;
  if (given && split.capacity) return {std::move(*given), {}, {}, {}, {}};
  SplitOptions rest = split;
  const auto found_in_pieces = [&] {
    share_time(rest, split.time_limit, begin, others && !split.capacity ? kPartOfBoth : 1);
    return in_either(graph, facts, storage, fit, rest, others, reorder, planner);
  };
  if (split.capacity) try {
      return found_in_pieces();
    } catch (const InfeasibleError& error) {
      if (error.proven()) throw;
      rest.capacity.reset();  // what was not found may be found where as little as possible is asked for
      SplitPlan least = found_in_pieces();
      if (least.fitted.found.plan.peak > *split.capacity) throw;
      return least;
    }
  SplitPlan found = found_in_pieces();
  const double most =
      given ? kLittleGained * static_cast<double>(given->found.plan.peak) : std::numeric_limits<double>::infinity();
  if (others && static_cast<double>(found.fitted.found.plan.peak) > most) try {
      share_time(part, split.time_limit, begin);
      FittedPlan reruns = solve_changed_least(graph, facts, storage, part, reorder, planner);
      if (reruns.found.plan.peak < found.fitted.found.plan.peak) {
        reruns.load_bound = std::min(found.fitted.load_bound, reruns.found.plan.peak);
        reruns.cost_bound = 0;
        found = {std::move(reruns), {}, {}, {}, {}};
      }
    } catch (const EndedError&) {  // what is found stays
    }
  if (!given || found.fitted.found.plan.peak < given->found.plan.peak) return found;
  given->load_bound = std::min(found.fitted.load_bound, given->found.plan.lower_bound);
  return {std::move(*given), {}, {}, {}, {}};
}

}  // namespace memplan
