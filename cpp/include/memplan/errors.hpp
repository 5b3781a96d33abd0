// Errors: what the core throws. Each message names the thing, what was expected and what came.
#pragma once

#include <stdexcept>

namespace memplan {

// A graph that cannot be: unknown names, two writers, a use before its producer, a view outside its root.
struct GraphError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Buffers that cannot be: negative sizes, empty lifetimes, sums beyond int64, columns of unequal length.
struct ProblemError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A request that a planner or a stage does not support, named by feature.
struct UnsupportedError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A plan that breaks its problem or its graph; the message lists the violations.
struct InvalidPlanError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A planner that does not do what a planner has to; the message names it.
struct PlannerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace memplan
