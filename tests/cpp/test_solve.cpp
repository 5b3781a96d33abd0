// What a solve tells of on its way, what ends it, and what it says where nothing fits.
#include "check.hpp"
#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "memplan/obstruction.hpp"
#include "memplan/solve.hpp"

using namespace memplan;

namespace {

constexpr std::string_view kForever = "hill_climb:iterations=1000000000,placements=1000000000000";

// Buffers of odd sizes and lives, which no order places well.
Problem tangled() {
  std::vector<Bytes> size;
  std::vector<Step> first, last;
  std::uint64_t state = 1;
  const auto draw = [&](std::int64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>(state >> 33) % below;
  };
  for (int i = 0; i < 100; ++i) {
    size.push_back(1 + draw(1'000'000));
    first.push_back(draw(100));
    last.push_back(first.back() + 1 + draw(30));
  }
  return Problem(std::move(size), std::move(first), std::move(last));
}

InfeasibleError caught(const Problem& problem, std::string_view planner, const PlanOptions& options) {
  try {
    (void)solve(problem, planner, options);
  } catch (const InfeasibleError& error) {
    return error;
  }
  return InfeasibleError("nothing was thrown");
}

void peaks_that_are_told_descend() {
  const Problem problem = tangled();
  PlanOptions options;
  int raw = 0;
  options.improved = [&](const Improvement& better) {
    CHECK(better.offsets.size() == 100);
    ++raw;
  };
  std::vector<Plan> told;
  const Plan plan = solve(problem, "hill_climb", options, [&](Plan better) { told.push_back(std::move(better)); });
  CHECK(told.size() > 1);
  CHECK(raw >= static_cast<int>(told.size()));
  for (std::size_t i = 1; i < told.size(); ++i) CHECK(told[i].peak < told[i - 1].peak);
  CHECK(!told.empty() && told.back().offsets == plan.offsets);
  CHECK(plan.offsets == solve(problem, "hill_climb").offsets);
}

void a_search_stops_when_it_is_asked_to() {
  const Problem problem = tangled();
  PlanOptions options;
  int asked = 0;
  options.stop = [&] { return ++asked >= 3; };
  const Plan plan = solve(problem, kForever, options);
  CHECK(plan.interrupted);
  CHECK(asked == 3);  // and never again
  options.stop = [] { return false; };
  CHECK(!solve(problem, "hill_climb", options).interrupted);
}

void a_search_ends_where_its_plan_fits() {
  const Problem problem = tangled();
  PlanOptions options;
  options.capacity = solve(problem, "hill_climb").peak;
  CHECK(solve(problem, kForever, options).peak <= *options.capacity);
  options.capacity = -1;
  THROWS(solve(problem, "auto", options), std::invalid_argument, "capacity must be >= 0 bytes, got -1");
}

void what_does_not_fit_is_said() {
  const Problem problem({4, 6, 8, 0}, {0, 0, 2, 0}, {9, 1, 3, 9}, {1, 1, 1, 1}, {"a", "b", "c", "none"});
  PlanOptions options;
  options.capacity = 11;
  const InfeasibleError by_load = caught(problem, "auto", options);
  CHECK(by_load.proven() && !by_load.plan && by_load.lower_bound == 12 && by_load.step == 2);
  CHECK(by_load.alive == (std::vector<std::string>{"c", "a"}));
  options.capacity = 15;
  const InfeasibleError by_plan = caught(problem, "naive", options);
  CHECK(!by_plan.proven() && by_plan.plan && by_plan.plan->peak == 18 && by_plan.lower_bound == 12);
  THROWS(solve(problem, "naive", options), std::invalid_argument, "the best plan of planner 'naive' peaks at 18");
}

void the_tightest_step_counts_parts() {
  const Problem plain({8, 4, 2}, {0, 1, 1}, {4, 2, 5});
  const TightestStep tightest = tightest_step(plain.with_shapes({{0, 0, 1, 0, 4}, {0, 1, 8, 2, 4}}));
  CHECK(tightest.step == 2 && tightest.bytes == 10 && tightest.users.size() == 2);
  CHECK(tightest.users.front().buffer == 0 && tightest.users.front().bytes == 8);
  CHECK(tightest_step(plain).bytes == load(plain));
  CHECK(tightest_step(Problem({}, {}, {})).users.empty());
}

// t1 may take the bytes of t0; the graph is planned with and without. y begins at 8, or they do.
void a_graph_has_a_bound_of_both_attempts() {
  GraphSpec spec;
  spec.tensors = {{"x", 2, TensorKind::input}, {"t0", 5}, {"t1", 5}, {"y", 5}};
  spec.ops = {{"f", "", {"x"}, {"t0"}}, {"g", "", {"t0"}, {"t1"}}, {"h", "", {"t1"}, {"y"}}};
  spec.ops[1].inplace = {{"t1", "t0"}};
  spec.outputs = {"y"};
  const Graph graph(std::move(spec));
  StorageOptions storage;
  storage.alignment = 4;
  CHECK(!buffers_of(graph, storage).shared.empty());
  std::vector<Bytes> told;
  const auto tell = [&](GraphPlan better) {
    CHECK(better.plan.offsets.size() == better.buffers.problem.size().size());
    told.push_back(better.plan.peak);
  };
  PlanOptions options;
  options.capacity = 13;
  CHECK(solve(graph, "auto", storage, options, tell).plan.peak == 13);
  CHECK(told == std::vector<Bytes>{13});
  options.capacity = 12;
  THROWS(solve(graph, "auto", storage, options), InfeasibleError, "a capacity of 12 bytes: ");
  try {
    (void)solve(graph, "auto", storage, options);
  } catch (const InfeasibleError& error) {
    CHECK(!error.plan && error.lower_bound == 13);
  }
  options.capacity = 9;
  THROWS(solve(graph, "auto", storage, options), InfeasibleError,
         "at least 13 bytes are needed, as alignments leave gaps");
}

void what_an_obstruction_has_when_it_is_asked_to_end_does_not_fit() {
  const Problem problem = tangled();
  const Bytes capacity = load(problem) - 1;
  Limits limits;
  limits.stop = [] { return true; };
  CHECK(!obstruction(problem, capacity, 1000, limits));
  limits.stop = [asked = 0]() mutable { return ++asked > 1; };
  const auto found = obstruction(problem, capacity, 1000, limits);
  CHECK(found && found->lower_bound > capacity && load(problem.subset(found->buffers)) > capacity);
  THROWS(obstruction(problem, -1), std::invalid_argument, "capacity must be >= 0 bytes, got -1");
}

}  // namespace

int main() {
  peaks_that_are_told_descend();
  a_search_stops_when_it_is_asked_to();
  a_search_ends_where_its_plan_fits();
  what_does_not_fit_is_said();
  the_tightest_step_counts_parts();
  a_graph_has_a_bound_of_both_attempts();
  what_an_obstruction_has_when_it_is_asked_to_end_does_not_fit();
  return check::finish();
}
