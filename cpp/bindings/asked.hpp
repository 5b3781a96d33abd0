// Asked: what Python asks of a planner, whole; and a call of the core that does it.
#pragma once

#include <string>
#include <utility>

#include "bindings.hpp"
#include "chosen.hpp"
#include "memplan/keep.hpp"
#include "memplan/methods.hpp"
#include "memplan/order_info.hpp"
#include "memplan/pools.hpp"
#include "memplan/ranges.hpp"
#include "memplan/solve.hpp"
#include "memplan/solve_order.hpp"
#include "watch.hpp"

namespace memplan::bindings {

// `PlanOptions` of Python: the planner by its text, its options, and who hears of what it finds.
struct Asked {
  std::string planner = "auto";
  InPython in_python = py::none();  // the planner, where it is written in Python
  PlanOptions options = {};         // without `stop`, which belongs to a call
  py::object tell = py::none();
  py::object on_order = py::none();
  bool interruptible = false;
};

// One call for what is asked, which outlives it.
class Call {
 public:
  explicit Call(const Asked& asked)
      : watch(asked.tell, asked.interruptible),
        options(asked.options),
        chosen_(asked.planner, asked.in_python, watch),
        on_order_(asked.on_order) {
    if (watch.can_stop() || !on_order_.is_none()) options.stop = [this] { return watch.stop(); };
  }
  Call(const Call&) = delete;

  const ChosenPlanner& planner() const { return chosen_.planner(); }
  OnOrder on_order() {
    if (on_order_.is_none()) return {};
    return [this](const OrderProgress& found) { watch.call(on_order_, found); };
  }

  Watch watch;
  PlanOptions options;

 private:
  const Chosen chosen_;
  const py::object& on_order_;
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
auto solved(Watch& watch, Solve&& solve, bool searches = false) {
  try {
    auto found = [&] {
      const py::gil_scoped_release release;
      return solve();
    }();
    Plan& plan = plan_in(found);
    plan.interrupted |= watch.interrupted(searches || plan.searched);
    return found;
  } catch (InfeasibleError& error) {
    const bool interrupted = watch.interrupted(error.plan && error.plan->searched);
    if (error.plan) error.plan->interrupted |= interrupted;
    throw;
  } catch (const EndedError&) {
    watch.interrupted(false);  // raises what a callback or a handler of signals has raised
    throw;
  }
}

}  // namespace memplan::bindings
