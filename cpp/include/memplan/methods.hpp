// Methods: several graphs or problems, of which one runs at a time, in one arena: prefill and decode of a model.
//
//     offset ▲ ┌──────────────────────────┐
//            │ │          cache           │      A shared tensor lies at one place in all methods, and nothing else
//            │ ├──────┬──────┐┌───────────┤      ever uses its bytes. All other buffers may overlap.
//            │ │prefill      ││  decode   │
//            └─┴──────┴──────┴┴───────────┴─▶ step
//
// Each method is planned alone. The method with the highest load comes first, because the other methods have to fit
// into its bytes. Then all methods are joined to one problem, which is planned like any other (methods/joined.hpp). For
// this, a shared tensor of a graph becomes a weight (methods/staying.hpp).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "memplan/solve.hpp"

namespace memplan {

struct Method {
  std::string name;
  std::variant<std::shared_ptr<const Graph>, Problem> source;
  StorageOptions storage = {};  // of a graph
  std::string order = "given";  // of a graph: the order of its ops, as choose_order() takes it
};

// A shared tensor: it keeps its place and its value between methods.
struct Staying {
  std::string name;
  // Per method, its names there: of tensors, or of buffers of a problem. A method has no name, one name, or two. Of two
  // names, the first tensor is read, and ops that may write in place lead from the first to the second. With one name
  // in a graph, the tensor is an input, a weight, an output, or a view of one of these.
  std::vector<std::vector<std::string>> tensors;
};

struct MethodPlan {
  std::shared_ptr<const Graph> graph;  // in the order of the plan; nullptr: the method is a problem
  Buffers buffers;                     // for a problem, only its Problem, with shared buffers alive throughout
  Plan plan;                           // offsets are in the common arena; the bound is for this method alone
  Bytes order_bound = 0;               // as in OrderedPlan
};

struct MethodsPlan {
  Problem problem;                  // first the shared tensors, as asked for; then the buffers of each method
  Plan plan;                        // of `problem`
  std::vector<MethodPlan> methods;  // as they were given
  Bytes lower_bound = 0;            // no common arena is smaller, in these orders, with any sharing
  double seconds = 0;               // wall time of all planning
};

// Half of a time limit is for planning the methods alone, in equal parts. The capacity is that of the common arena. The
// result is verified: each method, the joint problem, and that no other tensor uses the bytes of shared tensors
// (crossings.hpp). `tell` is called with better plans of the joint problem. Besides planning, it takes O(n log n) for n
// ops, tensors and buffers, and O(n) for each shared tensor with two names.
//
// Throws the errors of solve(). Throws GraphError or ProblemError, naming the method, if a tensor cannot be shared.
// Throws std::invalid_argument if no method is given, or two methods have one name.
MethodsPlan solve_methods(std::span<const Method> methods, std::span<const Staying> shared,
                          const ChosenPlanner& planner, const PlanOptions& options = {}, const OnPlan& tell = {});

MethodsPlan solve_methods(std::span<const Method> methods, std::span<const Staying> shared = {},
                          std::string_view planner = "auto", const PlanOptions& options = {}, const OnPlan& tell = {});

}  // namespace memplan
