// Planner: a function from a Problem to offsets, and the row that describes it.
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
  std::string_view alias = {};    // another name that it goes by
  std::string_view package = {};  // the package of another project that brings it
};

// What messages call it: "planner 'first_fit'", and of which package.
std::string label(const PlannerInfo& planner);

// Throws UnsupportedError, naming planner and features, if the planner lacks what the problem or an earlier plan asks
// for. A planner that does not support shapes plans rectangles.
void require_support(const PlannerInfo& planner, const Problem& problem, const PlanOptions& options);

// What the planner makes of the problem. A planner that does not support shapes is given plain rectangles, and what it
// proves of these is not kept. Throws as require_support() does, and TimeLimitError or InterruptedError if a planner
// that does not search had to end before it was done.
Placement run(const PlannerInfo& planner, const Problem& problem, const PlanOptions& options);

// The same for a problem that has been reduced: offsets and bounds are those of the problem.
class Reduction;
Placement run(const PlannerInfo& planner, const Reduction& reduction, const PlanOptions& options);

}  // namespace memplan
