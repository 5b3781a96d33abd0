#include "memplan/pools.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <utility>

#include "base/time_share.hpp"
#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/order.hpp"
#include "memplan/sharing_bound.hpp"
#include "memplan/solve.hpp"
#include "pools/accepted.hpp"
#include "pools/fixed.hpp"
#include "pools/plans_of_pools.hpp"
#include "solve/attempt.hpp"

namespace memplan {

namespace {

constexpr double kPartOfOrder = 0.25;   // of a time limit, for the search of "best"
constexpr std::size_t kMostListed = 5;  // buffers in a message

void check_pools(std::span<const Pool> pools) {
  if (pools.empty()) throw ProblemError("pools must hold at least one pool, got none");
  for (const Pool& pool : pools) {
    const std::string where = "pool " + quoted(pool.name) + ": ";
    if (pool.alignment < 1) throw ProblemError(where + "alignment must be >= 1, got " + std::to_string(pool.alignment));
    if (pool.cost < 0) throw ProblemError(where + "cost must be >= 0, got " + std::to_string(pool.cost));
    if (pool.base < 0 || pool.base % pool.alignment != 0)
      throw ProblemError(where + "base must be a multiple of its alignment " + std::to_string(pool.alignment) +
                         ", got " + std::to_string(pool.base));
    if (std::count_if(pools.begin(), pools.end(), [&](const Pool& other) { return other.name == pool.name; }) > 1)
      throw ProblemError("pools must have different names, got " + quoted(pool.name) + " twice");
  }
}

// What is planned: buffers, what they cost, and where they may lie.
struct PoolTask {
  std::span<const Pool> pools;
  const Problem& problem;  // without what is fixed
  Taken takes;
  std::vector<std::int64_t> accessed;
  FixedInPools fixed;

  bool takes_it(Index buffer, std::size_t pool) const { return takes[at(buffer) * pools.size() + pool] != 0; }
};

void check_pins(const PoolTask& task) {
  for (const auto& [buffer, pool, offset] : task.fixed.pins)
    if (!task.takes_it(buffer, pool))
      throw ProblemError("pin[" + quoted(task.problem.name(buffer)) + "] names pool " + quoted(task.pools[pool].name) +
                         ", which does not take it");
}

void check_taken(const PoolTask& task) {
  std::vector<std::string> alone;
  std::size_t count = 0;
  for (Index b = 0; b < task.problem.count(); ++b) {
    bool taken = false;
    for (std::size_t p = 0; p < task.pools.size(); ++p) taken |= task.takes_it(b, p);
    if (!taken && ++count <= kMostListed) alone.push_back(task.problem.name(b));
  }
  if (count == 0) return;
  throw ProblemError("none of the pools " + listed(task.pools, [](const Pool& pool) { return quoted(pool.name); }) +
                     " accepts " + listed(alone, quoted) +
                     (count > kMostListed ? " and " + std::to_string(count - kMostListed) + " more" : ""));
}

void check_bases(const PoolTask& task) {
  for (std::size_t p = 0; p < task.pools.size(); ++p)
    for (Index b = 0; b < task.problem.count(); ++b)
      if (task.takes_it(b, p) && task.pools[p].base % task.problem.alignment(b) != 0)
        throw ProblemError("pool " + quoted(task.pools[p].name) + ": base must be a multiple of the alignment " +
                           std::to_string(task.problem.alignment(b)) + " of buffer " + quoted(task.problem.name(b)) +
                           ", got " + std::to_string(task.pools[p].base));
}

// Costs per buffer and pool.
PoolsRequest request_of(const PoolTask& task) {
  std::int64_t bytes = 0, most = 0;
  for (const std::int64_t accessed : task.accessed) bytes = saturated_add(bytes, accessed);
  for (const Pool& pool : task.pools) most = std::max(most, pool.cost);
  if (most != 0 && bytes > kMaxBytes / most)
    throw ProblemError("costs of pools are too large: bytes accessed x cost must add up to less than 2**63");
  PoolsRequest request{task.problem, {task.pools.begin(), task.pools.end()}, {}, task.fixed.pins};
  for (Pool& pool : request.pools) pool.reserved.clear();
  for (const auto& [pool, range] : task.fixed.reserved) request.pools[pool].reserved.push_back(range);
  for (Index b = 0; b < task.problem.count(); ++b)
    for (std::size_t p = 0; p < task.pools.size(); ++p)
      request.cost.push_back(task.takes_it(b, p) ? task.accessed[at(b)] * task.pools[p].cost : kRefused);
  return request;
}

// Pools as ranges of one arena, one behind the other.
void stack(const PoolTask& task, const PlansOfPools& plans, PlanInPools& found) {
  Bytes end = 0;
  for (std::size_t p = 0; p < task.pools.size(); ++p) {
    const Pool& pool = task.pools[p];
    UsedPool used{{pool.name, pool.capacity, pool.alignment, pool.base, 0, plans.plans[p].peak},
                  plans.plans[p].lower_bound};
    Bytes unit = pool.alignment;
    for (Index b = 0; b < task.problem.count(); ++b) {
      if (at(found.pool[at(b)]) != p) continue;
      unit = std::lcm(unit, task.problem.alignment(b));
      used.accessed = saturated_add(used.accessed, task.accessed[at(b)]);
    }
    used.begin = align_up(end, unit);
    for (Index b = 0; b < task.problem.count(); ++b)
      if (at(found.pool[at(b)]) == p)
        found.plan.offsets[at(b)] = used.begin + plans.plans[p].offsets[at(used.buffers++)];
    const auto next = checked_add(used.begin, used.peak);
    if (!next)
      throw ProblemError("pools must end within int64 one behind the other, and " + quoted(pool.name) + " does not");
    end = *next;
    found.pools.push_back(std::move(used));
  }
}

void verify_in_pools(const PlanInPools& found, const PlannerInfo& planner) {
  throw_if_any(verify(found.problem, found.plan.offsets, kMaxBytes, kListedViolations), planner);
  throw_if_any(pool_faults(found.problem, found.plan.offsets,
                           std::vector<PoolRange>(found.pools.begin(), found.pools.end()), found.pool, found.takes),
               planner);
}

PlanInPools planned(PoolTask task, const ChosenPlanner& planner, const PlanOptions& options) {
  check_pins(task);
  check_taken(task);
  check_bases(task);
  const PlansOfPools plans = plans_of_pools(request_of(task), planner, options);
  PlanInPools found{task.problem, {}, plans.pool, {}, {}, {}, plans.cost, plans.cost_bound};
  found.plan.offsets.assign(at(task.problem.count()), 0);
  stack(task, plans, found);
  found.problem = stacked(task.problem, task.fixed, found.pools);
  Plan& plan = found.plan;
  plan.peak = peak_of(found.problem, plan.offsets);
  plan.lower_bound = plan.placement_bound = load(task.problem);
  plan.optimal = plan.peak == plan.lower_bound;
  plan.planner = plans.plans[0].planner;
  std::vector<std::string> winners;
  for (const Plan& part : plans.plans)
    if (std::find(winners.begin(), winners.end(), part.winner) == winners.end()) winners.push_back(part.winner);
  plan.winner = listed(winners, [](const std::string& winner) { return winner; });
  plan.interrupted = plans.interrupted;
  plan.seconds = plan.found_after = plans.seconds;
  found.takes = std::move(task.takes);
  found.accessed = std::move(task.accessed);
  found.pins = std::move(task.fixed.pins);
  found.reserved = std::move(task.fixed.reserved);
  verify_in_pools(found, planner.planner);
  if (found.cost < found.cost_bound)
    throw InvalidPlanError("the plan costs " + std::to_string(found.cost) + ", less than the bound " +
                           std::to_string(found.cost_bound));
  return found;
}

// Names of a problem's buffers, looked up once they are asked for.
class BufferNames {
 public:
  explicit BufferNames(const Problem& problem) : problem_(problem) {}

  Index find(const std::string& name) {
    if (position_.empty())
      for (Index b = 0; b < problem_.count(); ++b) position_.emplace(problem_.name(b), b);
    const auto found = position_.find(name);
    return found == position_.end() ? kNone : found->second;
  }

  Index at_name(const std::string& name, const std::string& what) {
    if (const Index b = find(name); b != kNone) return b;
    throw ProblemError(what + " must name buffers of the problem, got " + quoted(name));
  }

 private:
  const Problem& problem_;
  std::unordered_map<std::string, Index> position_;
};

Taken taken_of(const Problem& problem, std::span<const Pool> pools, BufferNames& names) {
  Taken takes(at(problem.count()) * pools.size(), 1);
  for (std::size_t p = 0; p < pools.size(); ++p) {
    if (!pools[p].accepts) continue;
    for (Index b = 0; b < problem.count(); ++b) takes[at(b) * pools.size() + p] = 0;
    for (const std::string& name : *pools[p].accepts)
      takes[at(names.at_name(name, "pool " + quoted(pools[p].name) + ": accepts")) * pools.size() + p] = 1;
  }
  return takes;
}

// Plans of a graph: in some orders, with tensors that share bytes by choice and without.
class GraphPoolSolver {
 public:
  GraphPoolSolver(std::shared_ptr<const Graph> graph, std::span<const Pool> pools, const ChosenPlanner& planner,
                  const PlanOptions& options, const StorageOptions& storage, const ChosenOrder& order,
                  const Accesses& accesses, const OnOrder& on_order)
      : pools_(pools),
        planner_(planner),
        options_(options),
        storage_(storage),
        chosen_(order),
        accesses_(accesses),
        on_order_(on_order),
        spread_(
            pools, graph,
            [takes = Accepted(*graph, pools)](std::string_view name, std::size_t pool) {
              return takes.takes(name, pool);
            },
            storage.alignment) {}

  GraphInPools run() {
    check_options(options_);
    const bool is_given = chosen_.order.name == "given", or_given = chosen_.order.name == "best";
    OpOrder order;
    if (!is_given) order = found_order(or_given);
    const auto& ordered = order.graph ? order.graph : spread_.graph();
    const bool both = or_given && order.graph != nullptr;
    left_ = both ? 4 : 2;
    attempt(ordered);
    if (both) attempt(spread_.graph());
    if (!best_) std::rethrow_exception(refused_);
    best_->order_bound = order.bound;
    best_->found.plan.interrupted |= order.interrupted;
    best_->found.plan.seconds = best_->found.plan.found_after = seconds_;
    return std::move(*best_);
  }

 private:
  OpOrder found_order(bool or_given) const {
    OrderOptions options;
    options.time_limit = share_of(options_.time_limit, or_given ? kPartOfOrder : 1);
    options.start = begin_;
    options.stop = options_.stop;
    options.on_order = on_order_;
    return order_of(*spread_.graph(), chosen_, storage_, options);
  }

  // Plans the graph in an order, with what shares bytes by choice and, where something does, without.
  void attempt(const std::shared_ptr<const Graph>& graph) {
    SpreadOut::Made made = spread_.buffers(*graph, storage_);
    const bool shares = !made.buffers.shared.empty();
    if (!shares) --left_;
    bool better = attempt(graph, std::move(made), storage_);
    if (shares) {
      StorageOptions apart = storage_;
      apart.inplace = apart.zero_copy = false;
      better |= attempt(graph, spread_.buffers(*graph, apart), apart);
    }
    if (!better) return;
    Plan& plan = best_->found.plan;
    plan.lower_bound = sharing_bound(*graph, storage_);
    plan.optimal = plan.peak == plan.lower_bound;
  }

  // Keeps the plan of one choice of sharing if it costs less than those before, or peaks lower at that cost; true then.
  bool attempt(const std::shared_ptr<const Graph>& graph, SpreadOut::Made made, const StorageOptions& storage) {
    PlanOptions options = options_;
    share_time(options, options_.time_limit, begin_, 1.0 / left_);
    --left_;
    try {
      PoolTask task{pools_, made.problem, Accepted(*graph, pools_).of(made.buffers),
                    accessed_bytes(*graph, made.buffers, accesses_), std::move(made.fixed)};
      PlanInPools found = planned(std::move(task), planner_, options);
      seconds_ += found.plan.seconds;
      if (best_ && std::pair(found.cost, found.plan.peak) >= std::pair(best_->found.cost, best_->found.plan.peak))
        return false;
      GraphInPools better{spread_.stacked(graph, found.pools), std::move(made.buffers), std::move(found)};
      if (better.graph != graph) better.buffers = buffers_of(*better.graph, storage);
      better.found.problem = better.buffers.problem;
      verify_in_pools(better.found, planner_.planner);
      throw_if_any(replay_all(*better.graph, better.buffers, better.found.plan.offsets, kListedViolations),
                   planner_.planner);
      best_ = std::move(better);
      return true;
    } catch (const InvalidPlanError&) {
      throw;
    } catch (const std::invalid_argument&) {  // no pool takes a buffer, or nothing fits: another choice may do
      refused_ = std::current_exception();
      return false;
    }
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  const std::span<const Pool> pools_;
  const ChosenPlanner& planner_;
  const PlanOptions& options_;
  const StorageOptions& storage_;
  const ChosenOrder& chosen_;
  const Accesses& accesses_;
  const OnOrder& on_order_;
  const SpreadOut spread_;
  int left_ = 0;  // plans that are still to be made
  double seconds_ = 0;
  std::optional<GraphInPools> best_;
  std::exception_ptr refused_;
};

}  // namespace

PlanInPools solve_in_pools(const Problem& problem, std::span<const Pool> pools, const ChosenPlanner& planner,
                           const PlanOptions& options, const Layout& fixed, std::span<const std::int64_t> accesses) {
  check_pools(pools);
  if (!accesses.empty() && accesses.size() != at(problem.count()))
    throw ProblemError("accesses must have one count per buffer, " + std::to_string(problem.count()) + ", got " +
                       std::to_string(accesses.size()));
  BufferNames names(problem);
  PoolTask task{pools, problem, taken_of(problem, pools, names), {}, {{}, reserved_in(pools, fixed)}};
  for (Index b = 0; b < problem.count(); ++b)
    task.accessed.push_back(accesses.empty() ? problem.size(b) : saturated_product(problem.size(b), accesses[at(b)]));
  const auto takes = [&](std::string_view name, std::size_t pool) {
    return task.takes_it(names.at_name(std::string(name), "pin"), pool);
  };
  for (const NamedPin& pin : pins_in(pools, fixed, takes))
    task.fixed.pins.push_back({names.at_name(pin.name, "pin"), pin.pool, pin.offset});
  return planned(std::move(task), planner, options);
}

GraphInPools solve_in_pools(std::shared_ptr<const Graph> graph, std::span<const Pool> pools,
                            const ChosenPlanner& planner, const PlanOptions& options, const StorageOptions& storage,
                            const ChosenOrder& order, const Accesses& accesses, const OnOrder& on_order) {
  check_pools(pools);
  return GraphPoolSolver(std::move(graph), pools, planner, options, storage, order, accesses, on_order).run();
}

}  // namespace memplan
