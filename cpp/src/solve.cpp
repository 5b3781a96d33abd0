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

constexpr std::size_t kListed = 20;  // violations that an error message lists

template <class Fault>
void throw_if_any(const std::vector<Fault>& faults, std::string_view planner) {
  if (faults.empty()) return;
  std::string message = "planner '" + std::string(planner) + "' made an invalid plan (a bug in that planner):";
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
}

// Seconds of the time limit, if there is one, after so many.
std::optional<double> time_left(const PlanOptions& options, double seconds) {
  if (!options.time_limit) return std::nullopt;
  return *options.time_limit - seconds;
}

// The plan of auto when nothing shares bytes by choice.
GraphPlan apart(const Graph& graph, StorageOptions storage, const PlanOptions& options) {
  storage.inplace = storage.zero_copy = false;
  Buffers buffers = buffers_of(graph, storage);
  Plan plan = solve(buffers.problem, "auto", options);
  return {std::move(buffers), std::move(plan)};
}

// Sharing lowers the load, and still a heuristic may do worse with what it leaves; the bound stays the lower one.
void keep_the_better(GraphPlan& shared, GraphPlan apart) {
  const double seconds = shared.plan.seconds + apart.plan.seconds;
  if (apart.plan.peak < shared.plan.peak) {
    apart.plan.lower_bound = std::min(apart.plan.lower_bound, shared.plan.lower_bound);
    apart.plan.optimal = apart.plan.peak == apart.plan.lower_bound;
    shared = std::move(apart);
  }
  shared.plan.seconds = seconds;
}

}  // namespace

Plan solve(const Problem& problem, std::string_view planner, const PlanOptions& options) {
  const ChosenPlanner chosen = choose_planner(planner);
  const PlannerInfo& info = chosen.planner;
  PlanOptions settings = options;
  settings.set.insert(settings.set.begin(), chosen.set.begin(), chosen.set.end());
  check_options(settings);
  problem.check();

  bool interrupted = false;
  if (options.stop) settings.stop = [&] { return interrupted = interrupted || options.stop(); };
  const auto start = std::chrono::steady_clock::now();
  Placement placement = run(info, problem, settings);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Plan plan = judge(problem, std::move(placement), info.name, planner, seconds.count());
  plan.interrupted = interrupted;
  return plan;
}

Plan judge(const Problem& problem, Placement placement, std::string_view planner, std::string_view asked,
           double seconds) {
  throw_if_any(verify(problem, placement.offsets, kMaxBytes, kListed), planner);
  Plan plan;
  plan.offsets = std::move(placement.offsets);
  plan.peak = peak_of(problem, plan.offsets);
  plan.lower_bound = std::max(load(problem), placement.lower_bound);
  plan.optimal = plan.peak == plan.lower_bound;
  plan.pools = placement.pools;
  plan.planner = asked;
  plan.winner = placement.winner.empty() ? asked : placement.winner;
  plan.seconds = seconds;
  return plan;
}

GraphPlan solve(const Graph& graph, std::string_view planner, const StorageOptions& storage,
                const PlanOptions& options) {
  Buffers buffers = buffers_of(graph, storage);
  Plan plan = solve(buffers.problem, planner, options);
  GraphPlan result{std::move(buffers), std::move(plan)};
  const std::optional<double> left = time_left(options, result.plan.seconds);
  if (planner == "auto" && !result.plan.optimal && !result.buffers.shared.empty() && (!left || *left > 0)) {
    PlanOptions rest = options;
    rest.time_limit = left;
    keep_the_better(result, apart(graph, storage, rest));
  }
  throw_if_any(replay_all(graph, result.buffers, result.plan.offsets, kListed), planner);
  return result;
}

Addresses addresses_of(const Buffers& buffers, std::span<const Bytes> offsets) {
  Addresses addresses;
  for (std::size_t t = 0; t < buffers.buffer_of_tensor.size(); ++t) {
    const Index b = buffers.buffer_of_tensor[t];
    const Bytes base = b == kNone ? 0 : offsets[static_cast<std::size_t>(b)];
    addresses.tensor.push_back(saturated_add(base, buffers.offset_in_buffer[t]));
    addresses.region.push_back(b == kNone ? buffers.root_of_tensor[t] : kNone);
  }
  for (Index b : buffers.buffer_of_workspace)
    addresses.workspace.push_back(b == kNone ? kNotPlaced : offsets[static_cast<std::size_t>(b)]);
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
