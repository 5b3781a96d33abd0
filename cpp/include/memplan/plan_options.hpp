// PlanOptions: the options of a planner, and the Improvement that a search reports.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "memplan/limits.hpp"
#include "memplan/parameters.hpp"
#include "memplan/units.hpp"

namespace memplan {

// A plan that is better than all plans before. Valid only during the call that reports it.
struct Improvement {
  std::span<const Bytes> offsets;
  Bytes peak = 0;
  Bytes lower_bound = 0;         // proven so far; 0: only the load is known
  std::string_view winner = {};  // the member of a portfolio that found it
};

struct PlanOptions : Limits {
  std::optional<Bytes> capacity = {};  // a search may end when a peak is at most the capacity
  bool decide = false;                 // it may also end when it is proven that no plan fits the capacity
  Bytes lower_bound = 0;               // proven earlier: no plan of the problem peaks below
  std::uint64_t seed = 0;              // for planners that use chance
  int threads = 1;                     // for planners that can use several
  Settings set = {};                   // parameters by name
  // The offsets of an earlier plan, by name. From these, solve() makes `warm`: an offset per buffer, or kNowhere for a
  // buffer that `earlier` lacks. A search begins with these offsets, and repairs them if they are no valid plan.
  std::shared_ptr<const std::unordered_map<std::string, Bytes>> earlier = {};
  std::vector<Bytes> warm = {};
  // Planners that search call it with each better plan, on the thread that called the planner.
  std::function<void(const Improvement&)> improved = {};

  std::int64_t get(const Parameter& parameter) const { return value_in(set, parameter); }
  // The peak at which a search may end: a lower bound, or the capacity if that is higher.
  Bytes enough(Bytes bound) const { return std::max({bound, lower_bound, capacity.value_or(0)}); }
  void tell(const Improvement& better) const {
    if (improved) improved(better);
  }
};

}  // namespace memplan
