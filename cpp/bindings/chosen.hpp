// Chosen: the planner that Python asks for.
#pragma once

#include <string>

#include "bindings.hpp"
#include "memplan/registry.hpp"
#include "python_planner.hpp"
#include "watch.hpp"

namespace memplan::bindings {

using InPython = py::typing::Optional<PythonPlanner>;

// The planner that a text asks for: one of the core's, or one written in Python, whose row is made for one call.
class Chosen {
 public:
  Chosen(const std::string& text, const InPython& in_python, Watch& watch)
      : row_(in_python.is_none() ? PlannerInfo{} : in_python.cast<const PythonPlanner&>().row(watch)),
        planner_(in_python.is_none() ? choose_planner(text) : choose_planner(row_, text)) {}
  Chosen(const Chosen&) = delete;

  const ChosenPlanner& planner() const { return planner_; }

 private:
  PlannerInfo row_;
  ChosenPlanner planner_;
};

}  // namespace memplan::bindings
