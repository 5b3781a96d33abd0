// A planner written in Python, as a row that the core runs like its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.hpp"
#include "memplan/planner.hpp"
#include "watch.hpp"

namespace memplan::bindings {

class PythonPlanner {
 public:
  // A parameter's name, the position or value of its standard, its least and most, and its words.
  using ParameterTuple = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, std::vector<std::string>>;

  // `run` is called with (problem, time_limit, seed, threads, capacity, settings, tell) and gives (offsets,
  // lower_bound, objects, interrupted). `tell`, None where nobody listens, is called with (offsets, lower_bound).
  PythonPlanner(std::string name, std::string package, const std::vector<std::string>& supports,
                const std::vector<ParameterTuple>& parameters, py::function run);
  PythonPlanner(const PythonPlanner&) = delete;

  // The row; it looks at this object, and at who is told of plans while it runs.
  PlannerInfo row(Watch& watch) const;

 private:
  struct Texts {
    std::string name;
    std::vector<std::string> words;
    std::vector<std::string_view> views;  // of the words
  };

  Placement run(const Problem& problem, const PlanOptions& options, Watch& watch) const;
  py::dict settings(const PlanOptions& options) const;

  std::string name_, package_;
  unsigned supports_ = 0;
  std::vector<std::unique_ptr<const Texts>> texts_;  // which parameters_ look at
  std::vector<Parameter> parameters_;
  py::function run_;
};

}  // namespace memplan::bindings
