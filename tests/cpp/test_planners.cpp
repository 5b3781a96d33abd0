// The registry, what planners support, and offsets known by hand.
#include "check.hpp"
#include "memplan/errors.hpp"
#include "memplan/registry.hpp"
#include "memplan/solve.hpp"

using namespace memplan;

namespace {

// Holes of 4, 2 and 8 bytes at 0, 6 and 10 open at step 1; a buffer of 2 bytes is born at step 2.
const Problem kHoles({4, 2, 2, 2, 8, 2, 2}, {0, 0, 0, 0, 0, 0, 2}, {1, 9, 1, 9, 1, 9, 3});

void each_fit_takes_its_hole() {
  const auto last = [](const char* planner) { return solve(kHoles, planner).offsets.back(); };
  CHECK(last("first_fit") == 0);
  CHECK(last("best_fit") == 6);
  CHECK(last("worst_fit") == 10);
  CHECK(solve(kHoles, "naive").peak == 22);
}

void the_top_grows_from_its_free_end() {
  const Problem problem({4, 6, 8}, {0, 0, 2}, {9, 1, 3});
  const Plan plan = solve(problem, "first_fit");
  CHECK(plan.offsets == (std::vector<Bytes>{0, 4, 4}));
  CHECK(plan.peak == 12);
  CHECK(plan.optimal);
}

void greedy_takes_the_tightest_gap() {
  // by size: 0 at 0, 1 at 0 (apart in time) ... the smallest goes between
  const Problem problem({10, 6, 3}, {0, 0, 0}, {4, 4, 4});
  CHECK(solve(problem, "greedy_by_size").offsets == (std::vector<Bytes>{0, 10, 16}));
}

void alignment_moves_offsets() {
  const Problem problem({3, 5, 1}, {0, 0, 0}, {1, 1, 1}, {1, 4, 8});
  for (const PlannerInfo& planner : planners()) {
    const Plan plan = solve(problem, planner.name);
    CHECK(plan.offsets[1] % 4 == 0);
    CHECK(plan.offsets[2] % 8 == 0);
  }
}

void what_is_not_supported_is_refused_by_name() {
  PlannerInfo plain = planners().front();
  plain.name = "plain";
  plain.supports = 0;
  const Problem aligned({1}, {0}, {1}, {8});
  THROWS(run(plain, aligned, {}), UnsupportedError, "planner 'plain' does not support alignment");
  CHECK(run(plain, Problem({1}, {0}, {1}), {}).offsets == std::vector<Bytes>{0});
  THROWS(solve(aligned, "magic"), std::invalid_argument, "planner must be one of auto, naive, first_fit");
}

// A planner that is in no table: every buffer on top of the one before.
Placement stacked(const Problem& problem, Bytes claim) {
  Placement placement;
  Bytes top = 0;
  for (const Bytes size : problem.size()) placement.offsets.push_back(std::exchange(top, top + size));
  placement.lower_bound = claim;
  return placement;
}

void a_row_of_the_callers_is_planned_with() {
  const Parameter parameters[] = {{"claim", "the bound", 0, 0, 100}};
  PlannerInfo row{};
  row.name = "stacked";
  row.run = [&](const Problem& problem, const PlanOptions& options) {
    return stacked(problem, options.get(parameters[0]));
  };
  row.parameters = parameters;
  const Problem problem({3, 5}, {0, 1}, {1, 2});
  const Plan plan = solve(problem, choose_planner(row, "stacked:claim=9,claim=8"));
  CHECK(plan.offsets == (std::vector<Bytes>{0, 3}));
  CHECK(plan.planner == "stacked:claim=9,claim=8");
  CHECK(plan.lower_bound == 8 && plan.optimal);
  THROWS(solve(problem, choose_planner(row, "stacked:claim=9")), PlannerError,
         "planner 'stacked' claims that no plan peaks below 9 bytes, and gives one that peaks at 8");
  THROWS(choose_planner(row, "stacked:claim=101"), std::invalid_argument, "parameter claim must be an integer in");
  row.package = "shelf 1.5";
  THROWS(solve(Problem({3}, {0}, {1}, {8}), choose_planner(row, "stacked")), UnsupportedError,
         "planner 'stacked' of package 'shelf 1.5' does not support alignment");
}

void an_alias_is_another_name() {
  CHECK(&choose_planner("pushdown").planner == &choose_planner("megengine").planner);
  CHECK(solve(kHoles, "pushdown").planner == "pushdown");
}

void options_are_checked() {
  PlanOptions options;
  options.threads = 0;
  THROWS(solve(kHoles, "auto", options), std::invalid_argument, "threads must be >= 1, got 0");
  options.threads = 1;
  options.time_limit = 0;
  THROWS(solve(kHoles, "auto", options), std::invalid_argument, "time_limit must be > 0");
}

void names_are_unique() {
  for (const PlannerInfo& a : planners()) {
    CHECK(&choose_planner(a.name).planner == &a);
    CHECK(!a.title.empty() && !a.source.empty() && !a.complexity.empty());
  }
}

}  // namespace

int main() {
  each_fit_takes_its_hole();
  the_top_grows_from_its_free_end();
  greedy_takes_the_tightest_gap();
  alignment_moves_offsets();
  what_is_not_supported_is_refused_by_name();
  a_row_of_the_callers_is_planned_with();
  an_alias_is_another_name();
  options_are_checked();
  names_are_unique();
  return check::finish();
}
