#include "memplan/planner.hpp"

#include <algorithm>
#include <string>

#include "memplan/errors.hpp"
#include "problem/reduction.hpp"

namespace memplan {

std::string label(const PlannerInfo& planner) {
  const std::string name = "planner " + quoted(planner.name);
  return planner.package.empty() ? name : name + " of package " + quoted(planner.package);
}

void require_support(const PlannerInfo& planner, const Problem& problem, const PlanOptions& options) {
  if (const unsigned refused = features_of(problem) & ~planner.supports & ~kShapes; refused != 0) {
    std::string list;
    for (std::string_view name : feature_names(refused)) list += (list.empty() ? "" : ", ") + std::string(name);
    throw UnsupportedError(label(planner) + " does not support " + list + ", which this problem asks for");
  }
  if (!options.warm.empty() && !(planner.supports & kStart))
    throw UnsupportedError(label(planner) + " does not support start: it does not search from an earlier plan");
}

Placement run(const PlannerInfo& planner, const Reduction& reduction, const PlanOptions& options) {
  if (reduction.is_identity()) return run(planner, reduction.problem(), options);
  const Bytes low = reduction.low_bytes();
  const auto raised = [&](Bytes bound) { return bound > 0 ? bound + low : 0; };
  PlanOptions reduced = options;
  if (options.capacity) reduced.capacity = std::max<Bytes>(*options.capacity - low, 0);
  reduced.lower_bound = std::max<Bytes>(options.lower_bound - low, 0);
  if (!options.warm.empty()) reduced.warm = reduction.reduced(options.warm);
  if (options.improved)
    reduced.improved = [&](Improvement better) {
      const std::vector<Bytes> offsets = reduction.restored(better.offsets);
      better.offsets = offsets;
      better.peak += low;
      better.lower_bound = raised(better.lower_bound);
      options.improved(better);
    };
  Placement placement = run(planner, reduction.problem(), reduced);
  placement.offsets = reduction.restored(placement.offsets);
  placement.lower_bound = raised(placement.lower_bound);
  return placement;
}

Placement run(const PlannerInfo& planner, const Problem& problem, const PlanOptions& options) {
  require_support(planner, problem, options);
  if (const Reduction reduction(problem); !reduction.is_identity()) return run(planner, reduction, options);
  if (!problem.has_shapes() || (planner.supports & kShapes)) return planner.run(problem, options);
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
