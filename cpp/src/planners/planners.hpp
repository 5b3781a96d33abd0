// The planners' entry points, one per file of this folder; registry.cpp lists them.
#pragma once

#include "deadline.hpp"
#include "memplan/planner.hpp"

namespace memplan {

Placement naive(const Problem& problem, const PlanOptions& options);
Placement first_fit(const Problem& problem, const PlanOptions& options);
Placement best_fit(const Problem& problem, const PlanOptions& options);
Placement worst_fit(const Problem& problem, const PlanOptions& options);
Placement greedy_by_size(const Problem& problem, const PlanOptions& options);
// greedy_by_size, or nothing if the deadline passes before it is done.
std::optional<Placement> greedy_by_size_until(const Problem& problem, const Deadline& deadline);

inline constexpr std::string_view kColoringOrders[] = {"birth", "size", "dsatur"};
inline constexpr Parameter kColoring[] = {{"order", "which buffer takes a colour next", 0, 0, 2, kColoringOrders}};
Placement coloring(const Problem& problem, const PlanOptions& options);

Placement ge_pool(const Problem& problem, const PlanOptions& options);

inline constexpr Parameter kMxnet[] = {
    {"match_range", "a free block may be so many times larger or smaller than asked for; 0: none is reused", 16, 0,
     1 << 20}};
Placement mxnet(const Problem& problem, const PlanOptions& options);

inline constexpr std::string_view kInductorReuseRules[] = {"always", "below_peak"};
inline constexpr Parameter kInductorReuse[] = {
    {"reuse", "take over a freed block always, or only where its wait stays below the peak", 0, 0, 1,
     kInductorReuseRules}};
Placement inductor_reuse(const Problem& problem, const PlanOptions& options);

Placement portfolio(const Problem& problem, const PlanOptions& options);  // the planner "auto"

}  // namespace memplan
