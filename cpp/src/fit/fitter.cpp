#include "fit/fitter.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/deadline.hpp"
#include "base/time_share.hpp"
#include "fit/cover.hpp"
#include "fit/exact.hpp"
#include "fit/fit_search.hpp"
#include "fit/moments.hpp"
#include "fit/prices.hpp"
#include "fit/rewrite.hpp"
#include "memplan/bounds.hpp"
#include "memplan/buffers.hpp"
#include "memplan/errors.hpp"
#include "memplan/happens_before.hpp"
#include "memplan/infeasible.hpp"

namespace memplan {

namespace {

constexpr int kRounds = 1500;     // of the bound
constexpr double kEnough = 1e-6;  // above a bound, as a share: no search for less
constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
constexpr int kTargets = 12;  // capacities of the model that are tried, until the buffers are within the real one

void check_facts(const Graph& graph, const std::vector<OpFacts>& facts) {
  if (facts.size() != graph.ops().size())
    throw GraphError("facts must be one per op, " + std::to_string(graph.op_count()) + ", got " +
                     std::to_string(facts.size()));
  for (Index k = 0; k < graph.op_count(); ++k)
    if (!std::isfinite(facts[at(k)].cost) || facts[at(k)].cost < 0)
      throw GraphError("op " + quoted(graph.op(k).name) + ": cost must be finite and >= 0, got " +
                       std::to_string(facts[at(k)].cost));
  if (!on_one_stream(graph)) throw UnsupportedError("fit takes graphs whose ops are on one stream");
}

InfeasibleError unfit(const std::string& message, Bytes capacity, Bytes bound) {
  InfeasibleError error(message);
  error.capacity = capacity;
  error.lower_bound = bound;
  return error;
}

// In a readable unit too: "1.50 KiB (1536 bytes)".
std::string in_bytes(Bytes bytes) {
  const std::string exact = std::to_string(bytes) + " bytes";
  if (bytes < 1024) return exact;
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit < kUnits.size(); ++unit) size /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f %s", size, kUnits[unit - 1]);
  return std::string(text.data()) + " (" + exact + ")";
}

// The tensor that takes most of what an op reads and writes.
std::string largest_of(const Graph& graph, const Op& op) {
  const Tensor* most = nullptr;
  for (const std::vector<Index>* side : {&op.inputs, &op.outputs})
    for (const Index t : *side)
      if (most == nullptr || graph.tensor(t).bytes > most->bytes) most = &graph.tensor(t);
  return most == nullptr ? "" : "; its largest tensor, " + quoted(most->name) + ", takes " + in_bytes(most->bytes);
}

}  // namespace

// A search for one capacity.
class WithinCapacity {
 public:
  WithinCapacity(Fitter& fitter, const FitOptions& options)
      : fitter_(fitter),
        graph_(fitter.graph_),
        facts_(fitter.facts_),
        storage_(fitter.storage_),
        options_(options),
        work_(work_for(graph_, options)),
        limits_(started(options)),
        of_search_(until(kUntilBound)),
        deadline_(of_search_) {}

  Fitted run() {
    const Bytes given = fitter_.given_load();
    if (given <= options_.capacity) return {same_graph(), {}, given, 0, 0, 0, false};
    if (!graph_.layout().empty())
      throw UnsupportedError(
          "fit does not support pins, reserved bytes, excluded tensors, or tensors together or apart, which this graph "
          "asks for");
    if (graph_.branches()) throw UnsupportedError("fit does not support branches, which this graph has");
    if (has_bodies(graph_)) throw UnsupportedError("fit does not support bodies of loops, which this graph has");
    if (!has_contents_model(graph_))
      throw UnsupportedError("fit takes graphs with ops, whose bytes have a sum in int64");
    const FitModel& bounding = fitter_.bounding();
    const Cover cover(bounding, options_.capacity);
    require_floor(cover.floor());
    const std::optional<Exact> optimum = exact(bounding, options_.capacity, options_.states);
    if (optimum) try_exact(fitter_.moving(), bounding, *optimum);
    const bool done = optimum && best_;
    const bool bounded = !optimum && !options_.any;
    const double moments = bounded ? rounded_up(bounding, moments_of(bounding, cover)) : 0;
    if (!done)
      search(fitter_.searched(), bounding, cover,
             options_.any ? std::numeric_limits<double>::infinity()
             : optimum    ? optimum->cost
                          : moments * (1 + kEnough),
             given);
    if (!best_) throw none_found(cover.floor());
    best_->cost_bound = optimum    ? optimum->cost
                        : !bounded ? 0
                                   : std::max(moments, rounded_up(bounding, bound_of(bounding, cover)));
    best_->load_bound = std::max<Bytes>(cover.floor().bytes, 0);
    best_->cost_bound = std::min(best_->cost_bound, best_->added_cost);
    best_->interrupted = interrupted_;
    return std::move(*best_);
  }

 private:
  static Limits started(Limits limits) {
    if (!limits.start) limits.start = std::chrono::steady_clock::now();
    return limits;
  }

  // Until this part of the time limit has passed, counted from the start of all.
  Limits until(double part) const {
    Limits limits = limits_;
    limits.time_limit = share_of(limits.time_limit, part);
    return limits;
  }

  double moments_of(const FitModel& model, const Cover& cover) const {
    const Limits part = until(kUntilMoments);
    return moments_bound(model, cover, Deadline(part));
  }

  Graph same_graph() const {
    GraphSpec spec{graph_.tensors(), {}, {}, graph_.layout()};
    for (const Op& op : graph_.ops()) spec.ops.push_back(spec_of(graph_, op));
    for (const Index t : graph_.outputs()) spec.outputs.push_back(graph_.tensor(t).name);
    return Graph(std::move(spec));
  }

  void require_floor(const Floor& floor) const {
    if (floor.bytes <= options_.capacity) return;
    const Op& op = graph_.op(floor.op);
    throw unfit("op " + quoted(op.name) + " needs " + in_bytes(floor.bytes) + " whatever is given up, capacity is " +
                    in_bytes(options_.capacity) + largest_of(graph_, op),
                options_.capacity, floor.bytes);
  }

  InfeasibleError none_found(const Floor& floor) const {
    std::string message = "no schedule was found within " + in_bytes(options_.capacity) + ": the least load found is " +
                          in_bytes(least_load_);
    if (floor.op != kNone)
      message += ", and op " + quoted(graph_.op(floor.op).name) + " needs " + in_bytes(floor.bytes) + " in any";
    return unfit(message, options_.capacity, floor.bytes);
  }

  // The graph is small: what no schedule can do is known. Parts of tensors are not moved alone, so that the optimum
  // is a bound only where these matter.
  void try_exact(const FitModel& model, const FitModel& bounding, const Exact& optimum) {
    if (!optimum.feasible)
      throw unfit("no schedule fits " + in_bytes(options_.capacity) + ": all were tried", options_.capacity,
                  options_.capacity + 1);
    if (model.units.size() != bounding.units.size()) return;
    std::vector<Copy> copies;
    for (std::size_t r = 0; r < optimum.reruns.size(); ++r) {
      const Unit& unit = model.units[at(optimum.reruns[r].unit)];
      for (const Index op : unit.ops) copies.push_back({op, r});
      if (unit.moved != kNone) copies.push_back({kNone, r});
    }
    consider(model, optimum.reruns, copies);
  }

  double bound_of(const FitModel& model, const Cover& cover) const {
    return prices_of(model, cover, best_->added_cost, kRounds, Deadline(limits_)).bound;
  }

  // Where all costs have a common divisor, so has what they add up to.
  static double rounded_up(const FitModel& model, double bound) {
    constexpr double kMostWhole = 0x1p53;
    std::int64_t divisor = 0;
    double sum = 0;
    for (const Unit& unit : model.units)
      for (const double cost : {unit.cost, unit.once}) {
        sum += cost;
        if (sum > kMostWhole || cost != std::floor(cost)) return bound;
        divisor = std::gcd(divisor, static_cast<std::int64_t>(cost));
      }
    return divisor == 0 ? bound : static_cast<double>(divisor) * std::ceil(bound / static_cast<double>(divisor));
  }

  // The model counts a little more or less than what the buffers need in the end. So its capacity is moved until they
  // are within the real one.
  void search(const FitModel& model, const FitModel& bounding, const Cover& cover, double enough, Bytes given) {
    Walk walk(model);
    walk.run(Schedule(model));
    Bytes target = options_.capacity + std::max<Bytes>(walk.load() - given, 0);
    const double guess =
        std::accumulate(facts_.begin(), facts_.end(), 0.0, [](double sum, const OpFacts& f) { return sum + f.cost; }) *
        0.2;
    const std::vector<double> prices = prices_of(bounding, cover, guess, kRounds / 3, deadline_).of_op;
    std::int64_t work = work_;
    for (int attempt = 0; attempt < kTargets && target > 0; ++attempt) {
      std::int64_t left = std::max<std::int64_t>(work / 2, work_ / kTargets);
      work -= left;
      const std::optional<Schedule> start = first(model, target, prices, enough, left);
      const std::optional<Schedule> found =
          searched(model, start.value_or(Schedule(model)), target, prices, enough, left, left);
      work += left;
      if (!found) return;
      const std::vector<Rerun> reruns = found->reruns();
      const Bytes load = consider(model, reruns, copies_of(model, reruns));
      if (load <= options_.capacity) return;
      target = std::min(target - 1, target - (load - options_.capacity));
    }
  }

  // Where both ways are allowed: the better of a schedule that moves nothing, with as much work as if that were asked
  // for, and of one that may, with half of it.
  std::optional<Schedule> first(const FitModel& model, Bytes target, const std::vector<double>& prices, double enough,
                                std::int64_t& work) {
    if (!fitter_.recompute_ || !fitter_.transfer_) return std::nullopt;
    const FitModel& reruns = fitter_.rerunning();
    std::int64_t as_much = work;
    const std::optional<Schedule> moving = searched(model, Schedule(model), target, prices, enough, work / 2, work);
    const std::optional<Schedule> staying =
        searched(reruns, Schedule(reruns), target, prices, enough, as_much, as_much);
    if (!staying || (moving && moving->cost() <= staying->cost())) return moving;
    Schedule start(model);
    for (const Rerun& rerun : staying->reruns()) start.add(rerun);  // units of ops come first in both models
    return start;
  }

  // Takes what it uses of a part from the work.
  std::optional<Schedule> searched(const FitModel& model, const Schedule& start, Bytes target,
                                   const std::vector<double>& prices, double enough, std::int64_t part,
                                   std::int64_t& work) {
    FitSearch search(model, target, deadline_);
    work -= part;
    std::optional<Schedule> found = search.run(start, prices, enough, part);
    work += part;
    interrupted_ = interrupted_ || search.ended();
    if (!found) least_load_ = std::min(least_load_, search.least_load());
    return found;
  }

  // The load of a schedule's graph, which is kept if it is the best within the capacity.
  Bytes consider(const FitModel& model, const std::vector<Rerun>& reruns, const std::vector<Copy>& copies) {
    Rewritten changed = rewritten(graph_, facts_, model, reruns, copies);
    const Bytes load = load_in(changed.graph, storage_);
    least_load_ = std::min(least_load_, load);
    const double cost = std::accumulate(changed.changes.begin(), changed.changes.end(), 0.0,
                                        [](double sum, const Change& change) { return sum + change.cost; });
    if (load <= options_.capacity && (!best_ || cost < best_->added_cost))
      best_ = Fitted{std::move(changed.graph), std::move(changed.changes), load, cost, 0, 0, false};
    return load;
  }

  Fitter& fitter_;
  const Graph& graph_;
  const std::vector<OpFacts>& facts_;
  const StorageOptions& storage_;
  const FitOptions& options_;
  const std::int64_t work_;
  static constexpr double kUntilMoments = 0.2, kUntilBound = 0.7;

  Limits limits_, of_search_;
  Deadline deadline_;  // of the search
  std::optional<Fitted> best_;
  Bytes least_load_ = kMaxBytes;
  bool interrupted_ = false;
};

StorageOptions with_copies(StorageOptions storage) {
  storage.zero_copy = false;
  return storage;
}

std::int64_t work_for(const Graph& graph, const FitOptions& options) {
  constexpr std::int64_t kMostPerOp = 10'000'000;
  if (options.time_limit) return options.work;
  return std::min(options.work, kMostPerOp * std::max<std::int64_t>(graph.op_count(), 1));
}

Bytes load_in(const Graph& graph, const StorageOptions& storage) { return load(buffers_of(graph, storage).problem); }

Fitter::Fitter(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage, bool recompute,
               std::optional<double> transfer)
    : graph_(graph),
      facts_(facts),
      storage_(storage),
      copies_(with_copies(storage)),
      recompute_(recompute),
      transfer_(transfer) {
  check_facts(graph, facts);
  if (transfer && (!std::isfinite(*transfer) || *transfer < 0))
    throw GraphError("transfer must be finite and >= 0, got " + std::to_string(*transfer));
}

Fitted Fitter::within(const FitOptions& options) { return WithinCapacity(*this, options).run(); }

Bytes Fitter::given_load() {
  if (!given_load_) given_load_ = load_in(graph_, storage_);
  return *given_load_;
}

const FitModel& Fitter::made(std::optional<FitModel>& model, const StorageOptions& storage, const Ways& ways) {
  if (!model) model.emplace(graph_, facts_, storage, ways);
  return *model;
}

const FitModel& Fitter::bounding() { return made(bounding_, storage_, {recompute_, transfer_, true}); }
const FitModel& Fitter::moving() { return made(moving_, storage_, {recompute_, transfer_, false}); }
const FitModel& Fitter::searched() { return made(searched_, copies_, {recompute_, transfer_, false}); }
const FitModel& Fitter::rerunning() { return made(rerunning_, copies_, {true, std::nullopt, false}); }

}  // namespace memplan
