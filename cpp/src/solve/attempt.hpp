// Attempt: the verified plan of one planner for one problem. All ways through solve share this step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "memplan/errors.hpp"
#include "memplan/plan.hpp"
#include "memplan/planner.hpp"
#include "memplan/problem.hpp"
#include "memplan/registry.hpp"
#include "memplan/solve.hpp"
#include "memplan/verify.hpp"

namespace memplan {

inline constexpr std::size_t kListedViolations = 20;  // that an error message lists

// Throws InvalidPlanError that lists the faults of a planner's plan, if there are any.
template <class Fault>
void throw_if_any(const std::vector<Fault>& faults, const PlannerInfo& planner) {
  if (faults.empty()) return;
  std::string message = label(planner) + " made an invalid plan (a bug in that planner):";
  for (const Fault& fault : faults) message += "\n  " + fault.message;
  throw InvalidPlanError(message);
}

// Tells of each plan that peaks below all plans before.
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

// Makes plans of a planner's placements. Work that does not depend on the placement is done once, beforehand. So little
// is left to do after a planner was interrupted.
class Judge {
 public:
  // Problem and planner outlive it; no plan of the problem peaks below the bound.
  Judge(const Problem& problem, const ChosenPlanner& planner, Bytes lower_bound);

  // The plan, verified. Throws InvalidPlanError, naming the planner, if the placement breaks the problem, and
  // PlannerError if it peaks below the bound that the planner claims.
  Plan plan_of(Placement placement, double seconds) const;

 private:
  const Problem& problem_;
  const ChosenPlanner& planner_;
  const Verifier verifier_;
  const Bytes lower_bound_;
};

// A lower bound of the peak: the heaviest clique, for which a search may take a part of the time.
Bytes bound_of(const Problem& problem, const PlanOptions& options);

// The verified plan of a planner, whether it fits the capacity or not. Throws as solve() does, except InfeasibleError.
Plan attempt(const Problem& problem, const ChosenPlanner& planner, const PlanOptions& options, Listener& listener);

// Throws std::invalid_argument for options out of range.
void check_options(const PlanOptions& options);

inline bool fits(const Plan& plan, const PlanOptions& options) {
  return !options.capacity || plan.peak <= *options.capacity;
}

}  // namespace memplan
