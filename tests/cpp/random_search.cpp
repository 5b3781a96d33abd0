// Searches against the optimum: many small random problems, each by several planners, whose claims are held against an
// exact oracle: `exhaustive`, which `plain::fits` checks on the smallest, and `plain::fits` alone where there are
// shapes.
//
//   random_search [PROBLEMS [SEED [conflicts|order|shapes] [PLANNER …]]]
//
// Problems are plain, with a few of all else, or of one kind. A fault names the seed of its problem: `random_search 1
// SEED KIND PLANNER` shows it again.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "memplan/bounds.hpp"
#include "memplan/registry.hpp"
#include "memplan/solve.hpp"
#include "plain_checks.hpp"
#include "random_problem.hpp"
#include "solve/attempt.hpp"

using namespace memplan;

namespace {

constexpr Bytes kUnknown = -1;

// What one planner did.
struct Tally {
  ChosenPlanner chosen;
  std::string asked;
  std::int64_t problems = 0, best = 0;        // best: peaks at the optimum
  std::int64_t optimal = 0, beyond_load = 0;  // said to be optimal; of those, above the load
  std::int64_t given = 0, fits = 0;           // given the optimum as capacity, and fitted
  std::int64_t refuted = 0, undecided = 0;    // given less: proven impossible, or not
  std::int64_t proofs = 0;                    // bounds that are the optimum, which an oracle knows
  double seconds = 0, slowest = 0;
  std::uint64_t slowest_seed = 0;

  void print() const {
    std::printf("%s: %" PRId64 " planned, %" PRId64 " at the optimum, ", asked.c_str(), problems, best);
    std::printf("%" PRId64 " called optimal (%" PRId64 " above the load); ", optimal, beyond_load);
    std::printf("given the optimum %" PRId64 " of %" PRId64 " fit; ", fits, given);
    std::printf("given a byte less %" PRId64 " refuted, %" PRId64 " undecided; ", refuted, undecided);
    std::printf("%" PRId64 " proofs of the optimum; ", proofs);
    std::printf("%.1f s, slowest %.4f s (seed %" PRIu64 ")\n", seconds, slowest, slowest_seed);
  }
};

void print(const Problem& problem) {
  for (Index i = 0; i < problem.count(); ++i) {
    std::fprintf(stderr, "  %d: size %" PRId64 ", [%" PRId64 ", %" PRId64 "), alignment %" PRId64, i, problem.size(i),
                 problem.first(i), problem.last(i), problem.alignment(i));
    for (const Part& part : problem.parts(i))
      std::fprintf(stderr, "; bytes [%" PRId64 ", %" PRId64 ") in [%" PRId64 ", %" PRId64 ")", part.begin, part.end,
                   part.first, part.last);
    if (problem.conflicts() != nullptr)
      problem.conflicts()->for_each(i, [](Index other) { std::fprintf(stderr, "; not with %d", other); });
    std::fprintf(stderr, "\n");
  }
}

class Round {
 public:
  Round(std::uint64_t seed, Beyond beyond)
      : seed_(seed),
        problem_(RandomProblem(seed, beyond).problem()),
        bound_(bound_of(problem_, {})),
        optimum_(oracle()) {}

  Bytes optimum() const { return optimum_; }
  const Problem& problem() const { return problem_; }

  void check(Tally& tally) {
    if (features_of(problem_) & ~tally.chosen.planner.supports & ~kShapes) return;
    ++tally.problems;
    const Plan plan = planned(tally, {});
    if (seed_ % 16 == 0) expect(placed(tally, {}, 2).offsets == plan.offsets, "two threads plan as one", tally.asked);
    tally.optimal += plan.optimal;
    tally.beyond_load += plan.optimal && plan.peak > load(problem_);
    if (optimum_ == kUnknown) return;
    tally.best += plan.peak == optimum_;
    check_capacities(tally);
  }

 private:
  void expect(bool holds, const char* what, const std::string& planner) {
    const int before = check::failures;
    check::report(holds, what, planner.c_str(), 0, "(problem of seed " + std::to_string(seed_) + ")");
    if (check::failures > before && check::failures <= 3) print(problem_);
  }

  // Few buffers of few bytes: all that there is can be tried.
  bool tiny() const {
    return problem_.count() <= 5 &&
           std::all_of(problem_.size().begin(), problem_.size().end(), [](Bytes size) { return size <= 24; });
  }

  Bytes oracle() {
    Bytes optimum = kUnknown;
    if (!problem_.has_shapes()) {
      const Plan plan = solve(problem_, "exhaustive:nodes=200000");
      expect(plain::faults(problem_, plan.offsets) == 0, "the plan is valid", "exhaustive");
      if (plan.optimal) optimum = plan.peak;
    }
    if (!tiny() || (!problem_.has_shapes() && seed_ % 8 != 0)) return optimum;
    Bytes least = load(problem_);
    while (!plain::fits(problem_, least)) ++least;
    expect(optimum == kUnknown || optimum == least, "the optimum is the least peak of all", "exhaustive");
    return least;
  }

  // By the planner itself: `solve` would ask for a plan that fits.
  Placement placed(const Tally& tally, std::optional<Bytes> capacity, int threads) const {
    PlanOptions options;
    options.seed = seed_;
    options.capacity = capacity;
    options.threads = threads;
    options.set = tally.chosen.set;
    options.lower_bound = bound_;
    return run(tally.chosen.planner, problem_, options);
  }

  Plan planned(Tally& tally, std::optional<Bytes> capacity) {
    const auto start = std::chrono::steady_clock::now();
    Placement placement = placed(tally, capacity, 1);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const Plan plan = Judge(problem_, tally.chosen, bound_).plan_of(std::move(placement), seconds.count());
    tally.seconds += seconds.count();
    if (seconds.count() > tally.slowest) {
      tally.slowest = seconds.count();
      tally.slowest_seed = seed_;
    }
    expect(plain::faults(problem_, plan.offsets) == 0, "the plan is valid", tally.asked);
    expect(plain::aligned(problem_, plan.offsets), "offsets are aligned", tally.asked);
    expect(plan.lower_bound <= plan.peak, "no bound is above its plan's peak", tally.asked);
    expect(plan.optimal == (plan.lower_bound == plan.peak), "optimal is what peaks at its bound", tally.asked);
    if (optimum_ != kUnknown) {
      expect(plan.peak >= optimum_, "no plan peaks below the optimum", tally.asked);
      expect(plan.lower_bound <= optimum_, "no proof goes beyond the optimum", tally.asked);
      tally.proofs += plan.lower_bound == optimum_;
    }
    return plan;
  }

  void check_capacities(Tally& tally) {
    ++tally.given;
    const Plan fitted = planned(tally, optimum_);
    tally.fits += fitted.peak <= optimum_;
    if (tally.chosen.planner.exact && !problem_.has_shapes())
      expect(fitted.peak <= optimum_, "an exact search finds what fits", tally.asked);
    if (optimum_ == 0) return;
    const Plan refuted = planned(tally, optimum_ - 1);
    ++(refuted.lower_bound == optimum_ ? tally.refuted : tally.undecided);
  }

  std::uint64_t seed_;
  Problem problem_;
  Bytes bound_;
  Bytes optimum_ = kUnknown;
};

// The searches that the registry has, or those asked for.
std::vector<Tally> tallies(std::vector<std::string> names) {
  const bool all = names.empty();
  for (const PlannerInfo& row : planners())
    for (std::string_view search : {"auto", "valley", "squeaky_wheel"})
      if (all && row.name == search) names.emplace_back(row.name);
  std::vector<Tally> rows;
  for (const std::string& name : names) rows.push_back({choose_planner(name), name});
  return rows;
}

struct Met {
  int unknown = 0, above_load = 0, alignment = 0, conflicts = 0, shapes = 0;

  void count(const Round& round) {
    const unsigned features = features_of(round.problem());
    alignment += (features & kAlignment) != 0;
    conflicts += (features & kConflicts) != 0;
    shapes += (features & kShapes) != 0;
    unknown += round.optimum() == kUnknown;
    above_load += round.optimum() > load(round.problem());
  }
};

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t problems = argc > 1 ? std::atoll(argv[1]) : 500;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  std::vector<std::string> words(argv + std::min(argc, 3), argv + argc);
  Beyond beyond = Beyond::some;
  for (const auto& [kind, name] :
       {std::pair{Beyond::conflicts, "conflicts"}, {Beyond::order, "order"}, {Beyond::shapes, "shapes"}})
    if (std::erase(words, std::string(name)) > 0) beyond = kind;
  std::vector<Tally> rows = tallies(std::move(words));
  Met met;
  const auto start = std::chrono::steady_clock::now();
  std::int64_t k = 0;
  for (; k < problems && check::failures == 0; ++k) {
    Round round(seed + static_cast<std::uint64_t>(k), beyond);
    met.count(round);
    for (Tally& row : rows) round.check(row);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%" PRId64 " problems in %.1f s: %d with alignment, %d with conflicts, %d with shapes; ", k,
              seconds.count(), met.alignment, met.conflicts, met.shapes);
  std::printf("optimum above the load in %d, unknown in %d\n", met.above_load, met.unknown);
  for (const Tally& row : rows) row.print();
  return check::finish();
}
