// Asked: what plans are asked for with, besides the planner; and a call of the core that gives one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "memplan/keep.hpp"
#include "memplan/methods.hpp"
#include "memplan/pools.hpp"
#include "memplan/ranges.hpp"
#include "memplan/solve.hpp"
#include "memplan/solve_order.hpp"
#include "watch.hpp"

namespace memplan::bindings {

using Start = std::optional<std::unordered_map<std::string, Bytes>>;

struct Asked {
  PlanOptions options;
  Watch watch;

  Asked(std::optional<double> time_limit, std::uint64_t seed, int threads, std::optional<Bytes> capacity,
        const py::object& tell, bool interruptible, Start start)
      : watch(tell, interruptible) {
    options.time_limit = time_limit;
    options.capacity = capacity;
    options.seed = seed;
    options.threads = threads;
    if (start) options.earlier = std::make_shared<const std::unordered_map<std::string, Bytes>>(*std::move(start));
    if (watch.can_stop()) options.stop = [this] { return watch.stop(); };
  }
  Asked(const Asked&) = delete;
};

inline Plan& plan_in(Plan& plan) { return plan; }
inline Plan& plan_in(GraphPlan& found) { return found.plan; }
inline Plan& plan_in(OrderedPlan& ordered) { return ordered.found.plan; }
inline Plan& plan_in(MethodsPlan& methods) { return methods.plan; }
inline Plan& plan_in(PlanInPools& found) { return found.plan; }
inline Plan& plan_in(GraphInPools& found) { return found.found.plan; }
inline Plan& plan_in(Kept& kept) { return kept.plan; }
inline Plan& plan_in(RangePlan& range) { return range.found.plan; }

// solve(), which gives a plan, without the lock; what Python has raised meanwhile comes before all else. `searches`
// says that it searches whatever the plan says.
template <class Solve>
auto solved(Asked& asked, Solve&& solve, bool searches = false) {
  try {
    auto found = [&] {
      const py::gil_scoped_release release;
      return solve();
    }();
    Plan& plan = plan_in(found);
    plan.interrupted |= asked.watch.interrupted(searches || plan.searched);
    return found;
  } catch (InfeasibleError& error) {
    const bool interrupted = asked.watch.interrupted(error.plan && error.plan->searched);
    if (error.plan) error.plan->interrupted |= interrupted;
    throw;
  } catch (const EndedError&) {
    asked.watch.interrupted(false);  // raises what a callback or a handler of signals has raised
    throw;
  }
}

}  // namespace memplan::bindings
