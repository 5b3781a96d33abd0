// Planner: a function from a Problem to offsets, and the row that describes it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "memplan/parameters.hpp"
#include "memplan/problem.hpp"

namespace memplan {

// A better plan than those before, as a search finds it; valid during the call that tells of it.
struct Improvement {
  std::span<const Bytes> offsets;
  Bytes peak = 0;
  Bytes lower_bound = 0;         // proven so far; 0: nothing beyond the load
  std::string_view winner = {};  // the member of a portfolio that found it
};

struct PlanOptions {
  std::optional<double> time_limit = {};                            // seconds, > 0; a search stops there with its best
  std::optional<std::chrono::steady_clock::time_point> start = {};  // where the limit counts from; else: the call
  std::optional<Bytes> capacity = {};                               // a search may end once a peak is at most that
  bool decide = false;                                              // and once it is proven that none is
  Bytes lower_bound = 0;                                            // proven before: no plan of the problem peaks below
  std::uint64_t seed = 0;                                           // for planners that use chance
  int threads = 1;                                                  // for planners that can use several
  Settings set = {};                                                // parameters by name
  // Where buffers began in an earlier plan, by name; solve() makes `warm` of it, per buffer, with kNowhere for those
  // that are not there. A search begins with these offsets, mended where they hold no more.
  std::shared_ptr<const std::unordered_map<std::string, Bytes>> earlier = {};
  std::vector<Bytes> warm = {};
  // Both are called on the thread that called the planner, the second by planners that search:
  std::function<bool()> stop = {};                        // asked every few milliseconds; true: end
  std::function<void(const Improvement&)> improved = {};  // told of each better plan

  std::int64_t get(const Parameter& parameter) const { return value_in(set, parameter); }
  // The peak at which a search may end: a lower bound, or the capacity where that is higher.
  Bytes enough(Bytes bound) const { return std::max({bound, lower_bound, capacity.value_or(0)}); }
  void tell(const Improvement& better) const {
    if (improved) improved(better);
  }
};

// What may be asked of a planner beyond sizes and lifetimes, by a problem or, kStart, by options; bits of
// PlannerInfo::supports.
enum Feature : unsigned {
  kAlignment = 1u << 0,
  kShapes = 1u << 1,
  kConflicts = 1u << 2,
  kPins = 1u << 3,
  kReserved = 1u << 4,
  kBranches = 1u << 5,
  kStart = 1u << 6,
};
inline constexpr Feature kFeatures[] = {kAlignment, kShapes, kConflicts, kPins, kReserved, kBranches, kStart};

// The names of the features in `features`, in a fixed order.
std::vector<std::string_view> feature_names(unsigned features);

// What a problem has that a planner may not support.
unsigned features_of(const Problem& problem);

struct Placement {
  std::vector<Bytes> offsets;
  std::string_view winner = {};  // for portfolios: the member whose offsets these are
  Bytes lower_bound = 0;         // for exact planners: proven, no plan of the problem peaks below
  Index pools = 0;               // for planners that think in pools, laid end to end: how many; else 0
  bool searched = false;         // by a planner that gives its best so far when it is to end
  bool interrupted = false;      // someone asked the planner to end, by a way of its own
};

struct PlannerInfo {
  std::string_view name;
  std::string_view title;       // one line for people
  bool exact;                   // finds an optimum, given time
  unsigned supports;            // Features
  std::string_view complexity;  // n buffers, r separate byte ranges in use at a time, p pairs alive together
  std::string_view source;      // document, paper or project
  std::function<Placement(const Problem&, const PlanOptions&)> run;
  std::span<const Parameter> parameters = {};
  std::string_view alias = {};    // another name that it goes by
  std::string_view package = {};  // the one of another project that brings it
};

// What messages call it: "planner 'first_fit'", and of which package.
std::string label(const PlannerInfo& planner);

// What the planner makes of the problem. One that does not support shapes is given plain rectangles, and what it
// proves of those is not kept. Throws UnsupportedError that names planner and features when it lacks another,
// TimeLimitError or InterruptedError where it does not search and was to end before it was done.
Placement run(const PlannerInfo& planner, const Problem& problem, const PlanOptions& options);

}  // namespace memplan
