// Methods: several graphs or problems, of which one runs at a time, in one arena: prefill and decode of a model.
//
//     offset ▲ ┌──────────────────────────┐
//            │ │          cache           │      A shared tensor lies at one place in all methods, and nothing else
//            │ ├──────┬──────┐┌───────────┤      ever uses its bytes. All other buffers may overlap.
//            │ │prefill      ││  decode   │
//            └─┴──────┴──────┴┴───────────┴─▶ step
//
// Each method is planned alone, the method with the highest load first: the others have to fit into the bytes that it
// takes. Then all methods are joined to one problem, which is planned as any other (methods/joined.hpp). In a graph, a
// shared tensor becomes a weight for that (methods/staying.hpp).
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
  std::string order = "given";  // of the ops of a graph, as choose_order() takes it
};

// What stays between methods.
struct Staying {
  std::string name;
  // Per method, its tensors there, or buffers of a problem: none; one; or two: the tensor that is read, and the tensor
  // that is written over it, through ops that may write in place. In a graph, a single one is an input, a weight, an
  // output, or a view of these.
  std::vector<std::vector<std::string>> tensors;
};

struct MethodPlan {
  std::shared_ptr<const Graph> graph;  // in the order of the plan; nullptr: the method is a problem
  Buffers buffers;                     // of a problem: only the problem, in which what stays is alive throughout
  Plan plan;                           // with offsets in the common arena; its bound is of the method alone
  Bytes order_bound = 0;               // as in OrderedPlan
};

struct MethodsPlan {
  Problem problem;                  // what stays, as it was asked for; then the buffers of each method
  Plan plan;                        // of that problem
  std::vector<MethodPlan> methods;  // as they were given
  Bytes lower_bound = 0;            // no arena for all methods is smaller, in their orders, whatever shares bytes
  double seconds = 0;               // wall time of all planning
};

// Half of a time limit is for the methods alone, in equal parts. The capacity is that of the common arena. The result
// is verified: each method, all as one problem, and that what stays is touched by nothing else (crossings.hpp). `tell`
// hears of better plans of the one problem. What is not planning takes O(n log n) for n ops, tensors and buffers, and
// O(n) for each shared tensor that is written anew over what was read.
//
// Throws what solve() does; GraphError or ProblemError that names the method, for what cannot stay; and
// std::invalid_argument if no method is given, or two of one name.
MethodsPlan solve_methods(std::span<const Method> methods, std::span<const Staying> shared,
                          const ChosenPlanner& planner, const PlanOptions& options = {}, const OnPlan& tell = {});

MethodsPlan solve_methods(std::span<const Method> methods, std::span<const Staying> shared = {},
                          std::string_view planner = "auto", const PlanOptions& options = {}, const OnPlan& tell = {});

}  // namespace memplan
