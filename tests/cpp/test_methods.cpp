// Methods in one arena: random graphs with what stays between them; what cannot stay; limits; the check across methods.
#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "memplan/crossings.hpp"
#include "memplan/errors.hpp"
#include "memplan/methods.hpp"
#include "memplan/verify.hpp"
#include "methods/joined.hpp"
#include "random_graph.hpp"

using namespace memplan;

namespace {

std::vector<PlacedMethod> placed(const std::vector<Method>& methods, const MethodsPlan& found) {
  std::vector<PlacedMethod> all;
  for (std::size_t m = 0; m < methods.size(); ++m) {
    const MethodPlan& method = found.methods[m];
    all.push_back({methods[m].name, method.graph.get(), {}, &method.buffers.problem, method.plan.offsets});
    if (method.graph) all.back().addresses = addresses_of(method.buffers, method.plan.offsets);
  }
  return all;
}

std::vector<PlacedStaying> lies(const std::vector<Staying>& shared, const MethodsPlan& found) {
  std::vector<PlacedStaying> all;
  for (std::size_t s = 0; s < shared.size(); ++s)
    all.push_back(
        {shared[s].name, found.problem.size(static_cast<Index>(s)), found.plan.offsets[s], shared[s].tensors});
  return all;
}

// Each method is verified and replayed as it is planned: what is left is what holds among them.
void random_graphs() {
  std::mt19937_64 generator(7);
  int planned = 0;
  for (int round = 0; round < 60; ++round) {
    const auto one = std::make_shared<const Graph>(RandomGraph(generator).spec());
    const auto other = std::make_shared<const Graph>(RandomGraph(generator).spec());
    std::vector<Method> methods{{"a", one}, {"b", one}, {"c", other}};
    std::vector<Staying> shared;
    for (const Tensor& tensor : one->tensors())
      if (tensor.kind != TensorKind::intermediate && generator() % 2 == 0)
        shared.push_back({tensor.name, {{tensor.name}, {tensor.name}, {}}});
    try {
      const MethodsPlan found = solve_methods(methods, shared, "greedy_by_size");
      CHECK(found.lower_bound <= found.plan.peak);
      CHECK(verify(found.problem, found.plan.offsets).empty());
      CHECK(crossings(placed(methods, found), lies(shared, found), found.plan.peak).empty());
      for (std::size_t m = 0; m < 3; ++m) CHECK(found.methods[m].plan.peak <= found.plan.peak);
      CHECK(solve_methods(methods, shared, "greedy_by_size").plan.offsets == found.plan.offsets);
      ++planned;
    } catch (const GraphError&) {  // it cannot stay
    }
  }
  CHECK(planned > 30);
}

// Ops that each write over what the one before has written.
std::shared_ptr<const Graph> updates(int count) {
  GraphSpec spec;
  spec.tensors.push_back({"t0", 8, TensorKind::input});
  for (int k = 0; k < count; ++k) {
    const std::string from = "t" + std::to_string(k), to = "t" + std::to_string(k + 1);
    spec.tensors.push_back({to, 8});
    spec.ops.push_back({"o" + std::to_string(k), "Add", {from}, {to}, 0, {}, {{to, from, 0}}});
  }
  spec.outputs.push_back("t" + std::to_string(count));
  return std::make_shared<const Graph>(std::move(spec));
}

void long_ways() {
  const int count = 20'000;
  const std::vector<Method> methods{{"a", updates(count)}, {"b", updates(3)}};
  const std::vector<Staying> shared{{"state", {{"t0", "t" + std::to_string(count)}, {"t0", "t3"}}}};
  const MethodsPlan found = solve_methods(methods, shared);
  CHECK(found.plan.peak == 8);
  CHECK(found.methods[0].buffers.shared.size() == at(count));
}

void what_cannot_be() {
  const std::vector<Method> methods{{"a", updates(2)}, {"b", Problem({8}, {0}, {1}, {}, {"t0"})}};
  THROWS(solve_methods({}), std::invalid_argument, "one or more");
  const std::vector<Method> twice{methods[0], methods[0]};
  THROWS(solve_methods(twice), std::invalid_argument, "two methods are named 'a'");
  const auto staying = [&](std::vector<std::vector<std::string>> tensors) {
    return solve_methods(methods, std::vector<Staying>{{"s", std::move(tensors)}});
  };
  THROWS(staying({{"t0"}}), std::invalid_argument, "per method");
  THROWS(staying({{"x"}, {}}), GraphError, "there is no 'x' of 'a'");
  THROWS(staying({{}, {}}), GraphError, "got none");
  THROWS(staying({{"t1"}, {}}), GraphError, "'t1' is an intermediate");
  CHECK(staying({{"t0", "t2"}, {"t0"}}).plan.peak == 8);
}

void limits() {
  std::mt19937_64 generator(1);
  const std::vector<Method> methods{{"a", std::make_shared<const Graph>(RandomGraph(generator).spec())},
                                    {"b", Problem({4, 4}, {0, 1}, {2, 3})}};
  const Bytes peak = solve_methods(methods).plan.peak;
  PlanOptions options;
  options.capacity = peak - 1;
  THROWS(solve_methods(methods, {}, "auto", options), InfeasibleError, "at least");
  options.capacity = peak;
  options.time_limit = 1e-6;
  int asked = 0;
  options.stop = [&] { return ++asked > 0; };
  CHECK(solve_methods(methods, {}, "first_fit").plan.peak >= peak);
  CHECK(solve_methods(methods, {}, "auto", options).plan.peak <= peak);
}

void steps_that_int64_does_not_hold() {
  const Step least = std::numeric_limits<Step>::min(), most = std::numeric_limits<Step>::max();
  const Problem whole({1}, {least}, {most}), half({1}, {least}, {0});
  const auto both = [](const Problem& a, const Problem& b) {
    const std::vector<MethodProblem> methods{{"a", &a, {}}, {"b", &b, {}}};
    return joined(methods, {}).problem;
  };
  THROWS(both(whole, whole), ProblemError, "more than 2^63 - 1");
  THROWS(both(half, Problem({1}, {0}, {1})), ProblemError, "method 'a'");
  const Problem reserved = Problem({1}, {5}, {6}).with_pins({}, {{0, 4, least, most}, {8, 9, 7, 9}});
  CHECK(both(Problem({1}, {-3}, {-1}), reserved).reserved().size() == 1);
  CHECK(both(Problem({1}, {-3}, {-1}), reserved).reserved()[0] == (Reserved{0, 4, 2, 3}));
}

// Two tensors that stay fill a buffer: one stands for it, the other lies at its distance.
void what_fills_a_buffer() {
  const Problem halves({64}, {0}, {1});
  const std::vector<MethodProblem> methods{{"a", &halves, {{0, 32}, {0, 0}}}};
  const Joined both = joined(methods, std::vector<SharedBytes>{{"high", 32}, {"low", 32}});
  CHECK(both.problem.count() == 2 && both.place == std::vector<std::vector<Index>>({{1}}));
  CHECK(std::ranges::equal(both.problem.together(), std::vector<Together>{{1, 0, 32}}));
}

}  // namespace

int main() {
  random_graphs();
  long_ways();
  what_cannot_be();
  limits();
  steps_that_int64_does_not_hold();
  what_fills_a_buffer();
  return check::finish();
}
