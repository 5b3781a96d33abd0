// The planners' entry points, one per file of the folders here; the registry lists them.
#pragma once

#include "base/deadline.hpp"
#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"

namespace memplan {

Placement naive(const Problem& problem, const PlanOptions& options);
Placement first_fit(const Problem& problem, const PlanOptions& options);
Placement best_fit(const Problem& problem, const PlanOptions& options);
Placement worst_fit(const Problem& problem, const PlanOptions& options);
Placement greedy_by_size(const Problem& problem, const PlanOptions& options);
// greedy_by_size for a search, whose deadline it asks.
Placement greedy_by_size_until(const Problem& problem, const Deadline& deadline);
Placement megengine(const Problem& problem, const PlanOptions& options);
Placement interval_move(const Problem& problem, const PlanOptions& options);
Placement inductor_tree(const Problem& problem, const PlanOptions& options);

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
Placement linear_scan(const Problem& problem, const PlanOptions& options);

inline constexpr std::string_view kShare[] = {"offsets", "objects"};
inline constexpr Parameter kGreedyByBreadth[] = {
    {"share", "what buffers share: offsets or whole objects", 0, 0, 1, kShare}};
Placement greedy_by_breadth(const Problem& problem, const PlanOptions& options);

inline constexpr std::string_view kConflictsFit[] = {"top", "lowest"};
inline constexpr Parameter kGreedyByConflicts[] = {
    {"fit", "on top of what conflicts, or lowest", 0, 0, 1, kConflictsFit}};
Placement greedy_by_conflicts(const Problem& problem, const PlanOptions& options);

inline constexpr Parameter kHillClimb[] = {{"iterations", "swaps tried", 500, 0, 1 << 30},
                                           {"placements", "buffers placed in all", 1 << 18, 0, std::int64_t{1} << 40}};
Placement hill_climb(const Problem& problem, const PlanOptions& options);

inline constexpr std::string_view kXlaOrder[] = {"best", "spatial", "temporal", "spatial_temporal"};
inline constexpr std::string_view kXlaFit[] = {"smallest", "lowest"};
inline constexpr Parameter kXlaHeap[] = {{"order", "what comes first", 0, 0, 3, kXlaOrder},
                                         {"fit", "which free chunk", 0, 0, 1, kXlaFit}};
Placement xla_heap(const Problem& problem, const PlanOptions& options);

inline constexpr Parameter kBeam[] = {{"k", "partial placements kept", 16, 1, 1 << 20}};
Placement beam(const Problem& problem, const PlanOptions& options);

inline constexpr Parameter kExhaustive[] = {{"nodes", "partial placements tried", 1'000'000, 0, std::int64_t{1} << 40}};
Placement exhaustive(const Problem& problem, const PlanOptions& options);

Placement longest_path(const Problem& problem, const PlanOptions& options);

Placement min_cost_flow(const Problem& problem, const PlanOptions& options);

inline constexpr Parameter kSomas[] = {
    {"orders", "how many of the orders to try", 6, 1, 6},
    {"fits", "how many of the fits to try", 2, 1, 4},
    {"margin", "bytes that one arena must save to be preferred to pools", 0, 0, kMaxBytes},
    {"work", "buffers looked at before pools, and then one arena, are left", 200'000'000, 0, kMaxBytes},
};
Placement somas(const Problem& problem, const PlanOptions& options);

inline constexpr Parameter kTlsfReplay[] = {
    {"block", "sizes are rounded up to a multiple of it", 1, 1, std::int64_t{1} << 40},
    {"splits", "parts of each power of two", 32, 1, 1 << 16},
};
Placement tlsf_replay(const Problem& problem, const PlanOptions& options);

inline constexpr std::string_view kSwitch[] = {"off", "on"};
inline constexpr Parameter kValley[] = {
    {"work", "steps of work, each of some nanoseconds", 1'000'000'000, 0, kMaxBytes},
    {"probe", "try children before they are entered", 1, 0, 1, kSwitch},
    {"waste", "order children by the slack that they waste", 1, 0, 1, kSwitch},
    {"refute", "remember refuted states", 1, 0, 1, kSwitch},
    {"split", "search apart what falls apart in time", 1, 0, 1, kSwitch},
    {"twins", "try one of identical buffers", 1, 0, 1, kSwitch},
    {"vary", "let restarts differ", 1, 0, 1, kSwitch},
    {"weigh", "branch first where the search died most", 1, 0, 1, kSwitch},
    {"stacks", "where no byte is free, search all stacks first", 1, 0, 1, kSwitch},
};
Placement valley(const Problem& problem, const PlanOptions& options);
inline constexpr Parameter kSqueakyWheel[] = {
    {"orders", "work, in times that all buffers are placed", 64, 0, 1 << 30},
    {"placements", "work, in buffers placed", 400'000, 0, std::int64_t{1} << 40}};
Placement squeaky_wheel(const Problem& problem, const PlanOptions& options);

}  // namespace memplan
