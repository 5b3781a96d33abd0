// auto: keeps the best of a few. Runs its members in order of their cost, and stops as soon as a peak equals the
// load, which proves it, or when the time limit has passed.
//
// greedy_by_size is left out of problems on which it could run for many seconds: those with very many pairs of
// buffers that overlap in time, such as training graphs of a million buffers. Which members run depends on the
// problem alone, unless a time limit is set.
//
// Complexity: that of its members. Guarantee: none below the best member's.
#include <array>
#include <chrono>

#include "memplan/bounds.hpp"
#include "memplan/plan.hpp"
#include "planners.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kMostPairs = 10'000'000'000;

struct Member {
  std::string_view name;
  Placement (*run)(const Problem&, const PlanOptions&);
  bool slow_on_pairs;
};

constexpr std::array<Member, 3> kMembers = {{
    {"first_fit", first_fit, false},
    {"best_fit", best_fit, false},
    {"greedy_by_size", greedy_by_size, true},
}};

bool time_is_up(const PlanOptions& options, std::chrono::steady_clock::time_point start) {
  if (!options.time_limit) return false;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >= *options.time_limit;
}

}  // namespace

Placement portfolio(const Problem& problem, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Bytes bound = load(problem);
  Placement best;
  Bytes best_peak = kMaxBytes;
  for (const Member& member : kMembers) {
    if (member.slow_on_pairs && overlapping_pairs(problem) > kMostPairs) continue;
    Placement candidate = member.run(problem, options);
    const Bytes peak = peak_of(problem, candidate.offsets);
    if (best.winner.empty() || peak < best_peak) {
      best = std::move(candidate);
      best.winner = member.name;
      best_peak = peak;
    }
    if (best_peak == bound || time_is_up(options, start)) break;
  }
  return best;
}

}  // namespace memplan
