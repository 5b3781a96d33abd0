#include "memplan/registry.hpp"

#include <stdexcept>
#include <string>

#include "auto/auto.hpp"
#include "memplan/errors.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

constexpr std::string_view kFits =
    "overview of greedy, beam and exhaustive planning (Tensor lifetime optimisation); Knuth, TAOCP 1, 2.5";

constexpr unsigned kApart = kConflicts | kBranches;  // branches are planned as conflicts
constexpr unsigned kAll = kAlignment | kShapes | kApart;
constexpr unsigned kFixed = kPins | kReserved;

// name, title, exact, supports, complexity, source, function, parameters, alias. A planner is one file in planners/ and
// one row here.
const PlannerInfo kPlanners[] = {
    {"auto", "first_fit, then searches by valleys, squeaky wheel, pairs and ejection; stops at a proven optimum", false,
     kAll | kFixed | kStart, "that of its members", "memplan", portfolio, kPortfolio},
    {"naive", "every tensor its own bytes: nothing is shared", false, kAll | kFixed, "O(n)",
     "the baseline of every comparison", naive},
    {"first_fit", "by birth, into the lowest free block that fits", false, kAlignment, "O(n log n)", kFits, first_fit},
    {"best_fit", "by birth, into the tightest free block that fits", false, kAlignment, "O(n log n)", kFits, best_fit},
    {"worst_fit", "by birth, into the largest free block that fits", false, kAlignment, "O(n log n)", kFits, worst_fit},
    {"beam", "by birth; keeps the k best partial placements", false, kAlignment | kStart,
     "O(n k (a + log(k a))) for a alive at a time",
     "overview of greedy, beam and exhaustive planning (Tensor lifetime optimisation)", beam, kBeam},
    {"exhaustive", "all placements that could be best: an optimum, with its proof", true, kAlignment | kApart | kStart,
     "exponential", "overview of greedy, beam and exhaustive planning (Tensor lifetime optimisation)", exhaustive,
     kExhaustive},
    {"megengine",
     "by birth, into the tightest free block; the largest grows where none fits",
     false,
     kAlignment | kShapes,
     "O(n log n)",
     "MegEngine, static memory analysis; its PUSHDOWN",
     megengine,
     {},
     "pushdown"},
    {"interval_move", "by length of life, into the tightest gap; what is above moves up where none fits", false,
     kAlignment, "O(n^2 log n)", "MegEngine, its INTERVAL_MOVE", interval_move},
    {"mxnet", "by birth, into a free block of about the size, which grows", false, kAlignment | kApart, "O(n log n)",
     "MXNet, optimizing memory consumption; plan_memory of NNVM and MXNet", mxnet, kMxnet},
    {"coloring", "a conflict graph coloured greedily, a pool per colour", false, kAlignment | kApart,
     "O(n log n + p); O(n^2 + p) with dsatur", "MXNet, optimizing memory consumption; GE memory reuse; Brelaz 1979",
     coloring, kColoring},
    {"longest_path", "the longest chain of buffers that may follow one another shares a pool; repeat", false,
     kAlignment | kApart, "O(n c) for c chains", "notes on memory optimisation in MXNet", longest_path},
    {"ge_pool", "by birth, into the first pool that is large enough and free", false, kAlignment | kApart, "O(n log n)",
     "GE (CANN) memory reuse, allocate_memory_pools", ge_pool},
    {"inductor_reuse", "by birth, into the last freed block of the same size", false, kAlignment | kApart, "O(n log n)",
     "torch.compile, memory_plan_reuse (torch memory planning)", inductor_reuse, kInductorReuse},
    {"inductor_tree", "the largest first, into a tree of splits in time and space", false, kAlignment, "O(n^2)",
     "torch memory planning; PyTorch's Inductor, memory_planning.py", inductor_tree},
    {"greedy_by_size", "the largest first, into the tightest gap", false, kAll | kFixed, "O(n r log n)",
     "Pisarchyk and Lee 2020; TFLite, TFLM, IREE", greedy_by_size},
    {"greedy_by_breadth", "the step with most bytes alive first, its largest buffers first, into the tightest gap",
     false, kAll, "O(n r log n)", "Pisarchyk and Lee 2020; TFLite's GPU delegate", greedy_by_breadth, kGreedyByBreadth},
    {"greedy_by_conflicts", "the buffer with most conflicts first, on top of those it conflicts with", false, kAll,
     "O(n r log n)", "Apache TVM, Unified Static Memory Planner", greedy_by_conflicts, kGreedyByConflicts},
    {"hill_climb", "an order, improved by swaps that may lower the highest buffer", false, kAll | kStart,
     "O(n r log n) per swap", "Apache TVM, Unified Static Memory Planner; Arm Vela", hill_climb, kHillClimb},
    {"xla_heap", "the largest or the longest-lived first, into the smallest free chunk; the better of both", false,
     kAll, "O(n r log n)", "OpenXLA, global decreasing size best fit heap", xla_heap, kXlaHeap},
    {"somas", "orders by size x fits x one arena or pools; keeps the best", false, kAll | kStart, "O(n^2)",
     "MindSpore, SOMAS", somas, kSomas},
    {"squeaky_wheel", "an order, in which what ends too high comes forward and pushes others out; repeat", false,
     kAll | kStart, "O(n r log n) per order, then O(a) per buffer moved for a alive at a time",
     "Joslin and Clements 1999, Squeaky Wheel Optimization", squeaky_wheel, kSqueakyWheel},
    {"linear_scan", "by birth, into the tightest free region; when none fits, what dies last may be moved", false,
     kAlignment, "O(n a) for a alive at a time", "Poletto and Sarkar 1999; PyTorch JIT's static memory planner",
     linear_scan},
    {"tlsf_replay", "births and deaths in order through a two-level segregated fit allocator", false, kAlignment,
     "O(n log n)", "tinygrad; Masmano et al. 2004", tlsf_replay, kTlsfReplay},
    {"valley", "places into valleys between placed buffers, backtracks, and proves what it can", true,
     kAlignment | kStart, "exponential; a dive O(sections covered x log n)", "memplan", valley, kValley},
    {"min_cost_flow", "each buffer opens an object or takes one over, at the least cost of all", false, kAlignment,
     "O(n^3)", "TFLite, GPU delegate", min_cost_flow},
};

const PlannerInfo& find_planner(std::string_view name) {
  for (const PlannerInfo& planner : kPlanners)
    if (name == planner.name || (!name.empty() && name == planner.alias)) return planner;
  throw std::invalid_argument("planner must be one of " + listed(kPlanners, [](const auto& row) { return row.name; }) +
                              ", got " + quoted(name));
}

}  // namespace

std::span<const PlannerInfo> planners() { return kPlanners; }

ChosenPlanner choose_planner(std::string_view text) {
  return choose_planner(find_planner(text.substr(0, text.find(':'))), text);
}

ChosenPlanner choose_planner(const PlannerInfo& planner, std::string_view text) {
  return {planner, std::string(text), settings_in(text, planner.parameters, label(planner))};
}

}  // namespace memplan
