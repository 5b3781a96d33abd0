#include "memplan/solve.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/registry.hpp"
#include "memplan/replay.hpp"
#include "memplan/verify.hpp"

namespace memplan {

namespace {

constexpr std::size_t kListedViolations = 20;  // violations that an error message lists

template <class Fault>
void throw_if_any(const std::vector<Fault>& faults, std::string_view planner) {
  if (faults.empty()) return;
  std::string message = "planner " + quoted(planner) + " made an invalid plan (a bug in that planner):";
  for (const Fault& fault : faults) message += "\n  " + fault.message;
  throw InvalidPlanError(message);
}

bool has_streams(const Graph& graph) {
  return std::any_of(graph.ops().begin(), graph.ops().end(),
                     [&](const Op& op) { return op.stream != graph.ops().front().stream; });
}

void check_options(const PlanOptions& options) {
  if (options.time_limit && !(*options.time_limit > 0))
    throw std::invalid_argument("time_limit must be > 0 seconds, got " + std::to_string(*options.time_limit));
  if (options.threads < 1) throw std::invalid_argument("threads must be >= 1, got " + std::to_string(options.threads));
  if (options.capacity && *options.capacity < 0)
    throw std::invalid_argument("capacity must be >= 0 bytes, got " + std::to_string(*options.capacity));
}

bool fits(const Plan& plan, const PlanOptions& options) { return !options.capacity || plan.peak <= *options.capacity; }

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Who hears of plans, as long as each peaks below all before it.
struct Listener {
  OnPlan tell;                       // empty: nobody
  std::optional<Bytes> lowest = {};  // peak told of

  bool wants(Bytes peak) const { return tell && (!lowest || peak < *lowest); }
  void hear(const Plan& plan) {
    if (!wants(plan.peak)) return;
    lowest = plan.peak;
    tell(plan);
  }
};

// What a planner makes of a problem, verified, whether it fits the capacity or not.
Plan attempt(const Problem& problem, std::string_view planner, const PlanOptions& options, Listener& listener) {
  const ChosenPlanner chosen = choose_planner(planner);
  check_options(options);
  if (options.capacity) require_room(problem, *options.capacity);
  PlanOptions settings = options;
  settings.set.insert(settings.set.begin(), chosen.set.begin(), chosen.set.end());

  const auto start = std::chrono::steady_clock::now();
  const auto judged = [&](Placement placement) {
    return judge(problem, std::move(placement), chosen.planner.name, planner, seconds_since(start));
  };
  bool interrupted = false;
  if (options.stop) settings.stop = [&] { return interrupted = interrupted || options.stop(); };
  std::optional<std::pair<Bytes, double>> found;  // the lowest peak that was told of, and when
  settings.improved = [&](const Improvement& better) {
    options.tell(better);
    if (!found || better.peak < found->first) found = {better.peak, seconds_since(start)};
    if (!listener.wants(better.peak)) return;
    std::vector<Bytes> offsets(better.offsets.begin(), better.offsets.end());
    Plan plan = judged({std::move(offsets), better.winner, better.lower_bound});
    plan.found_after = found->second;
    listener.hear(plan);
  };
  Plan plan = judged(run(chosen.planner, problem, settings));
  if (found && found->first == plan.peak) plan.found_after = std::min(found->second, plan.seconds);
  plan.interrupted = interrupted;
  listener.hear(plan);
  return plan;
}

// Plans a graph, in one attempt or two; what is told of them peaks lower each time, whichever it is from.
class GraphSolver {
 public:
  GraphSolver(const Graph& graph, std::string_view planner, const PlanOptions& options, const OnGraphPlan& tell)
      : graph_(graph), planner_(planner), options_(options), tell_(tell) {}

  GraphPlan run(const StorageOptions& storage) {
    GraphPlan best = attempt(buffers_of(graph_, storage), options_);
    Bytes bound = best.plan.lower_bound;  // of all that was tried
    if (planner_ == "auto" && !best.buffers.shared.empty()) {
      if (may_do_better(best.plan))
        bound = try_apart(best, storage);
      else if (!fits(best.plan, options_))
        bound = load(best.buffers.problem);  // which sharing never raises
    }
    check(best.buffers, best.plan);
    if (fits(best.plan, options_)) return best;
    const Problem problem = best.buffers.problem;
    throw infeasible(problem, *options_.capacity, bound, std::move(best.plan), std::move(best.buffers));
  }

 private:
  // `before` is another plan of the graph: its bound counts too, and its time.
  GraphPlan attempt(Buffers buffers, const PlanOptions& options, const Plan* before = nullptr) {
    const auto join = [&](Plan& plan) {
      if (before == nullptr) return;
      plan.lower_bound = std::min(plan.lower_bound, before->lower_bound);
      plan.optimal = plan.peak == plan.lower_bound;
      plan.seconds += before->seconds;
      plan.found_after += before->seconds;
    };
    if (tell_)
      listener_.tell = [&](Plan plan) {
        join(plan);
        check(buffers, plan);
        tell_({buffers, std::move(plan)});
      };
    Plan plan = memplan::attempt(buffers.problem, planner_, options, listener_);
    join(plan);
    return {std::move(buffers), std::move(plan)};
  }

  bool may_do_better(const Plan& plan) const {
    if (plan.interrupted || (options_.time_limit && *options_.time_limit <= plan.seconds)) return false;
    return options_.capacity ? !fits(plan, options_) : !plan.optimal;
  }

  // Plans with nothing sharing bytes by choice and keeps the better plan: sharing lowers the load, and still a
  // heuristic may do worse with what it leaves. Returns a bound of both.
  Bytes try_apart(GraphPlan& best, StorageOptions storage) {
    storage.inplace = storage.zero_copy = false;
    Buffers buffers = buffers_of(graph_, storage);
    if (options_.capacity)
      if (const Bytes least = load(buffers.problem); least > *options_.capacity)
        return std::min(least, best.plan.lower_bound);
    PlanOptions rest = options_;
    if (rest.time_limit) *rest.time_limit -= best.plan.seconds;
    GraphPlan apart = attempt(std::move(buffers), rest, &best.plan);
    const Bytes bound = apart.plan.lower_bound;
    best.plan.seconds = apart.plan.seconds;
    best.plan.interrupted = apart.plan.interrupted;
    if (apart.plan.peak < best.plan.peak) best = std::move(apart);
    return bound;
  }

  void check(const Buffers& buffers, const Plan& plan) const {
    throw_if_any(replay_all(graph_, buffers, plan.offsets, kListedViolations), planner_);
  }

  const Graph& graph_;
  std::string_view planner_;
  const PlanOptions& options_;
  const OnGraphPlan& tell_;
  Listener listener_ = {};
};

}  // namespace

Plan solve(const Problem& problem, std::string_view planner, const PlanOptions& options, const OnPlan& tell) {
  Listener listener{tell};
  Plan plan = attempt(problem, planner, options, listener);
  if (options.capacity) require_fit(problem, *options.capacity, plan);
  return plan;
}

Plan judge(const Problem& problem, Placement placement, std::string_view planner, std::string_view asked,
           double seconds) {
  throw_if_any(verify(problem, placement.offsets, kMaxBytes, kListedViolations), planner);
  Plan plan;
  plan.offsets = std::move(placement.offsets);
  plan.peak = peak_of(problem, plan.offsets);
  plan.lower_bound = std::max(load(problem), placement.lower_bound);
  plan.optimal = plan.peak == plan.lower_bound;
  plan.pools = placement.pools;
  plan.planner = asked;
  plan.winner = placement.winner.empty() ? asked : placement.winner;
  plan.seconds = plan.found_after = seconds;
  return plan;
}

GraphPlan solve(const Graph& graph, std::string_view planner, const StorageOptions& storage, const PlanOptions& options,
                const OnGraphPlan& tell) {
  return GraphSolver(graph, planner, options, tell).run(storage);
}

Addresses addresses_of(const Buffers& buffers, std::span<const Bytes> offsets) {
  Addresses addresses;
  for (std::size_t t = 0; t < buffers.buffer_of_tensor.size(); ++t) {
    const Index b = buffers.buffer_of_tensor[t];
    const Bytes base = b == kNone ? 0 : offsets[at(b)];
    addresses.tensor.push_back(saturated_add(base, buffers.offset_in_buffer[t]));
    addresses.region.push_back(b == kNone ? buffers.root_of_tensor[t] : kNone);
  }
  for (Index b : buffers.buffer_of_workspace) addresses.workspace.push_back(b == kNone ? kNotPlaced : offsets[at(b)]);
  return addresses;
}

std::vector<ReplayFault> replay_all(const Graph& graph, const Buffers& buffers, std::span<const Bytes> offsets,
                                    std::size_t limit) {
  constexpr std::uint64_t kSequences = 16;  // sampled where ops may run side by side
  const Addresses addresses = addresses_of(buffers, offsets);
  ReplayOptions options{limit, buffers.donated, {}};
  std::vector<ReplayFault> faults = replay(graph, addresses, options);
  for (std::uint64_t seed = 0; has_streams(graph) && faults.empty() && seed < kSequences; ++seed) {
    options.sequence = legal_sequence(graph, seed);
    faults = replay(graph, addresses, options);
  }
  return faults;
}

}  // namespace memplan
