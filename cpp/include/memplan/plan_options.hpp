// PlanOptions: what a planner is asked for besides the problem; and what a search tells of.
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

// A better plan than those before, as a search finds it; valid during the call that tells of it.
struct Improvement {
  std::span<const Bytes> offsets;
  Bytes peak = 0;
  Bytes lower_bound = 0;         // proven so far; 0: nothing beyond the load
  std::string_view winner = {};  // the member of a portfolio that found it
};

struct PlanOptions : Limits {
  std::optional<Bytes> capacity = {};  // a search may end once a peak is at most that
  bool decide = false;                 // it may also end once it is proven that no plan fits the capacity
  Bytes lower_bound = 0;               // proven before: no plan of the problem peaks below
  std::uint64_t seed = 0;              // for planners that use chance
  int threads = 1;                     // for planners that can use several
  Settings set = {};                   // parameters by name
  // Where buffers began in an earlier plan, by name; solve() makes `warm` of it, per buffer, with kNowhere for a buffer
  // without a name there. A search begins with these offsets, mended if they hold no more.
  std::shared_ptr<const std::unordered_map<std::string, Bytes>> earlier = {};
  std::vector<Bytes> warm = {};
  // By planners that search, told of each better plan on the thread that called the planner.
  std::function<void(const Improvement&)> improved = {};

  std::int64_t get(const Parameter& parameter) const { return value_in(set, parameter); }
  // The peak at which a search may end: a lower bound, or the capacity if that is higher.
  Bytes enough(Bytes bound) const { return std::max({bound, lower_bound, capacity.value_or(0)}); }
  void tell(const Improvement& better) const {
    if (improved) improved(better);
  }
};

}  // namespace memplan
