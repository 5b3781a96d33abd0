// Planner: a function from a Problem to offsets, and the row that describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memplan/problem.hpp"

namespace memplan {

struct PlanOptions {
  std::optional<double> time_limit;  // seconds, > 0; portfolios stop there with the best so far
  std::uint64_t seed = 0;            // for planners that use chance
  int threads = 1;                   // for planners that can use several
};

// What a problem may ask of a planner beyond sizes and lifetimes; bits of PlannerInfo::supports.
enum Feature : unsigned { kAlignment = 1u << 0 };

// The names of the features in `features`, in a fixed order.
std::vector<std::string_view> feature_names(unsigned features);

// What a problem asks of its planner.
unsigned required_features(const Problem& problem);

struct Placement {
  std::vector<Bytes> offsets;
  std::string_view winner = {};  // for portfolios: the member whose offsets these are
};

struct PlannerInfo {
  std::string_view name;
  std::string_view title;       // one line for people
  bool exact;                   // finds an optimum, given time
  unsigned supports;            // Features
  std::string_view complexity;  // n buffers, r separate byte ranges in use at a time
  std::string_view source;      // document, paper or project
  Placement (*run)(const Problem&, const PlanOptions&);
};

// Throws UnsupportedError that names planner and features when the problem asks for more than it supports.
void require_support(const PlannerInfo& planner, const Problem& problem);

}  // namespace memplan
