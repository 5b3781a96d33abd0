// Planner: a function from a Problem to offsets, and the row that describes this planner.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memplan/features.hpp"
#include "memplan/parameters.hpp"
#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"

namespace memplan {

struct PlannerInfo {
  std::string_view name;
  std::string_view title;       // one line for people
  bool exact;                   // finds an optimum, given time
  unsigned supports;            // Features
  std::string_view complexity;  // n buffers, r separate byte ranges in use at a time, p pairs alive together
  std::string_view source;      // document, paper or project
  std::function<Placement(const Problem&, const PlanOptions&)> run;
  std::span<const Parameter> parameters = {};
  std::string_view alias = {};    // another name of the planner
  std::string_view package = {};  // the package that brings the planner; empty: memplan
};

// The planner's name in messages: "planner 'first_fit'", with its package.
std::string label(const PlannerInfo& planner);

// Throws UnsupportedError, naming planner and features, if the problem or the options use a feature that the planner
// lacks. Shapes are the exception: see run().
void require_support(const PlannerInfo& planner, const Problem& problem, const PlanOptions& options);

// Runs the planner. A planner that does not support shapes gets plain rectangles, and its proofs for these are dropped.
// Throws as require_support(). Throws TimeLimitError or InterruptedError if a planner that does not search has to end
// before it is done.
Placement run(const PlannerInfo& planner, const Problem& problem, const PlanOptions& options);

// The same for a reduced problem. Offsets and bounds are for the original problem.
class Reduction;
Placement run(const PlannerInfo& planner, const Reduction& reduction, const PlanOptions& options);

}  // namespace memplan
