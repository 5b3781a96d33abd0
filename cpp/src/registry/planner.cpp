#include "memplan/planner.hpp"

#include <algorithm>
#include <string>

#include "memplan/errors.hpp"
#include "problem/fold.hpp"
#include "problem/shift.hpp"
#include "problem/unbranched.hpp"

namespace memplan {

std::string label(const PlannerInfo& planner) {
  const std::string name = "planner " + quoted(planner.name);
  return planner.package.empty() ? name : name + " of package " + quoted(planner.package);
}

namespace {

// Plans what lies together as one.
Placement run_folded(const PlannerInfo& planner, const Fold& fold, const PlanOptions& options) {
  PlanOptions of_fold = options;
  if (!options.warm.empty()) of_fold.warm = fold.folded(options.warm);
  if (options.improved)
    of_fold.improved = [&](Improvement better) {
      const std::vector<Bytes> offsets = fold.unfolded(better.offsets);
      better.offsets = offsets;
      options.improved(better);
    };
  Placement placement = run(planner, fold.problem(), of_fold);
  placement.offsets = fold.unfolded(placement.offsets);
  return placement;
}

// Plans what is above all that cannot be used; what is proven of it is so of the problem, higher by that.
Placement run_shifted(const PlannerInfo& planner, const Shift& shift, const PlanOptions& options) {
  const auto raised = [&](Bytes bound) { return bound > 0 ? bound + shift.by() : 0; };
  PlanOptions above = options;
  if (options.capacity) above.capacity = std::max<Bytes>(*options.capacity - shift.by(), 0);
  above.lower_bound = std::max<Bytes>(options.lower_bound - shift.by(), 0);
  if (!options.warm.empty()) above.warm = shift.shifted(options.warm);
  if (options.improved)
    above.improved = [&](Improvement better) {
      const std::vector<Bytes> offsets = shift.unshifted(better.offsets);
      better.offsets = offsets;
      better.peak += shift.by();
      better.lower_bound = raised(better.lower_bound);
      options.improved(better);
    };
  Placement placement = run(planner, shift.problem(), above);
  placement.offsets = shift.unshifted(placement.offsets);
  placement.lower_bound = raised(placement.lower_bound);
  return placement;
}

}  // namespace

Placement run(const PlannerInfo& planner, const Problem& problem, const PlanOptions& options) {
  const unsigned missing = features_of(problem) & ~planner.supports;
  if (const unsigned refused = missing & ~kShapes; refused != 0) {
    std::string list;
    for (std::string_view name : feature_names(refused)) list += (list.empty() ? "" : ", ") + std::string(name);
    throw UnsupportedError(label(planner) + " does not support " + list + ", which this problem asks for");
  }
  if (!options.warm.empty() && !(planner.supports & kStart))
    throw UnsupportedError(label(planner) + " does not support start: it does not search from an earlier plan");
  if (problem.has_branches()) return run(planner, without_branches(problem), options);
  if (!problem.together().empty()) return run_folded(planner, Fold(problem), options);
  if (const auto shift = Shift::of(problem)) return run_shifted(planner, *shift, options);
  if (!(missing & kShapes)) return planner.run(problem, options);
  PlanOptions of_rectangles = options;
  if (options.improved)
    of_rectangles.improved = [&](Improvement better) {
      better.lower_bound = 0;
      options.improved(better);
    };
  Placement placement = planner.run(problem.without_shapes(), of_rectangles);
  placement.lower_bound = 0;
  return placement;
}

}  // namespace memplan
