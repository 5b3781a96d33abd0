#include "python_planner.hpp"

#include <stdexcept>
#include <tuple>
#include <utility>

#include "arrays.hpp"
#include "memplan/errors.hpp"
#include "memplan/plan.hpp"

namespace memplan::bindings {

namespace {

unsigned feature_of(const std::string& name) {
  for (const unsigned feature : kFeatures)
    if (feature_names(feature).front() == name) return feature;
  throw std::invalid_argument("supports must hold names of features, got '" + name + "'");
}

// What a planner calls with each better plan. It may keep it for longer than it runs, and hand it to other threads.
class Teller {
 public:
  Teller(const Problem& problem, const PlanOptions& options, Watch& watch)
      : problem_(problem), options_(options), watch_(watch), thread_(PyThread_get_thread_ident()) {}

  void end() { ended_ = true; }

  void tell(py::handle offsets, Bytes lower_bound) {
    if (ended_ || PyThread_get_thread_ident() != thread_)
      throw PlannerError("options.tell must be called while the planner runs, on the thread that called it");
    const std::vector<Bytes> column = int64_column(offsets, "offsets");
    {
      const py::gil_scoped_release release;
      options_.tell({column, peak_of(problem_, column), lower_bound});
    }
    watch_.raise_in_planner();
  }

 private:
  const Problem& problem_;
  const PlanOptions& options_;
  Watch& watch_;
  unsigned long thread_;
  bool ended_ = false;
};

// A Teller that ends with the planner.
class Told {
 public:
  Told(const Problem& problem, const PlanOptions& options, Watch& watch)
      : teller_(std::make_shared<Teller>(problem, options, watch)) {}
  Told(const Told&) = delete;
  ~Told() { teller_->end(); }

  py::object function() const {
    return py::cpp_function(
        [teller = teller_](py::handle offsets, Bytes lower_bound) { teller->tell(offsets, lower_bound); });
  }

 private:
  std::shared_ptr<Teller> teller_;
};

}  // namespace

PythonPlanner::PythonPlanner(std::string name, std::string package, const std::vector<std::string>& supports,
                             const std::vector<ParameterTuple>& parameters, py::function run)
    : name_(std::move(name)), package_(std::move(package)), run_(std::move(run)) {
  for (const std::string& feature : supports) supports_ |= feature_of(feature);
  for (const auto& [parameter, standard, least, most, words] : parameters) {
    Texts texts{parameter, words, {}};
    auto kept = std::make_unique<Texts>(std::move(texts));
    kept->views.assign(kept->words.begin(), kept->words.end());
    parameters_.push_back({kept->name, {}, standard, least, most, kept->views});
    texts_.push_back(std::move(kept));
  }
}

PlannerInfo PythonPlanner::row(Watch& watch) const {
  PlannerInfo row{};
  row.name = name_;
  row.supports = supports_;
  row.run = [this, &watch](const Problem& problem, const PlanOptions& options) { return run(problem, options, watch); };
  row.parameters = parameters_;
  row.package = package_;
  return row;
}

py::dict PythonPlanner::settings(const PlanOptions& options) const {
  py::dict settings;
  for (const Parameter& parameter : parameters_) {
    const std::int64_t value = options.get(parameter);
    const py::str name(parameter.name.data(), parameter.name.size());
    if (parameter.words.empty())
      settings[name] = value;
    else
      settings[name] = parameter.words[at(value)];
  }
  return settings;
}

Placement PythonPlanner::run(const Problem& problem, const PlanOptions& options, Watch& watch) const {
  const py::gil_scoped_acquire lock;
  const Told told(problem, options, watch);
  const py::object tell = watch.listens() ? told.function() : py::none();
  const py::object given =
      run_(problem, options.time_limit, options.seed, options.threads, options.capacity, settings(options), tell);
  const auto [offsets, lower_bound, objects, interrupted] = given.cast<std::tuple<py::object, Bytes, Index, bool>>();
  Placement placement;
  placement.offsets = int64_column(offsets, "offsets");
  placement.lower_bound = lower_bound;
  placement.objects = objects;
  placement.interrupted = interrupted;
  return placement;
}

}  // namespace memplan::bindings
