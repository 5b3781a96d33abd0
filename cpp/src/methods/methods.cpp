#include "memplan/methods.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/deadline.hpp"
#include "base/time_share.hpp"
#include "memplan/bounds.hpp"
#include "memplan/crossings.hpp"
#include "memplan/errors.hpp"
#include "memplan/registry.hpp"
#include "memplan/solve_order.hpp"
#include "memplan/verify.hpp"
#include "methods/joined.hpp"
#include "methods/staying.hpp"
#include "solve/attempt.hpp"

namespace memplan {

namespace {

constexpr double kShareOfMethods = 0.5;  // of a time limit: for each alone, together
constexpr double kLeastOfWhole = 0.1;    // of it: for all as one problem, however much time is gone

const Graph* graph_of(const Method& method) {
  const auto* graph = std::get_if<std::shared_ptr<const Graph>>(&method.source);
  return graph == nullptr ? nullptr : graph->get();
}

// The tensors of a graph, or buffers of a problem, by name.
class Things {
 public:
  explicit Things(const Method& method) : graph_(graph_of(method)) {
    if (graph_ != nullptr) return;
    const Problem& problem = std::get<Problem>(method.source);
    for (Index b = 0; b < problem.count(); ++b) buffers_.emplace(problem.name(b), std::pair(b, problem.size(b)));
  }

  // Position and bytes; nothing where there is none.
  std::optional<std::pair<Index, Bytes>> find(const std::string& name) const {
    if (graph_ != nullptr) {
      const std::optional<Index> t = graph_->find(name);
      return t ? std::optional(std::pair(*t, graph_->tensor(*t).bytes)) : std::nullopt;
    }
    const auto found = buffers_.find(name);
    return found == buffers_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  const Graph* graph_;
  std::unordered_map<std::string, std::pair<Index, Bytes>> buffers_;
};

void check_methods(std::span<const Method> methods, std::span<const Staying> shared) {
  if (methods.empty()) throw std::invalid_argument("methods must be one or more, got none");
  std::unordered_set<std::string_view> names;
  for (const Method& method : methods)
    if (!names.insert(method.name).second)
      throw std::invalid_argument("two methods are named " + quoted(method.name) + "; names of methods must be unique");
  for (const Staying& stays : shared)
    if (stays.tensors.size() != methods.size())
      throw std::invalid_argument("shared " + quoted(stays.name) +
                                  " must have tensors, or none, per method: there are " +
                                  std::to_string(methods.size()) + ", got " + std::to_string(stays.tensors.size()));
}

// The bytes of a tensor that stays: as many in all methods.
Bytes bytes_of(const Staying& stays, std::span<const Method> methods, std::span<const Things> things) {
  std::optional<Bytes> bytes;
  std::string first;
  for (std::size_t m = 0; m < methods.size(); ++m)
    for (const std::string& name : stays.tensors[m]) {
      const auto found = things[m].find(name);
      const std::string who = quoted(name) + " of " + quoted(methods[m].name);
      if (!found)
        throw GraphError("shared " + quoted(stays.name) + " must name tensors of methods: there is no " + who);
      const std::string has = who + " has " + std::to_string(found->second);
      if (bytes && *bytes != found->second)
        throw GraphError("shared " + quoted(stays.name) + " must have as many bytes in all methods: " + first +
                         ", and " + has);
      if (!bytes) first = has;
      bytes = found->second;
    }
  if (!bytes) throw GraphError("shared " + quoted(stays.name) + " must name a tensor of some method, got none");
  return *bytes;
}

// What is thrown while something is done for a method names that method.
template <class Work>
auto named(const Method& method, Work&& work) {
  const std::string prefix = "method " + quoted(method.name);
  const auto text = [&](const std::exception& error) {
    const std::string said = error.what();
    return said.find(prefix) == std::string::npos ? prefix + ": " + said : said;
  };
  try {
    return work();
  } catch (const GraphError& error) {
    throw GraphError(text(error));
  } catch (const ProblemError& error) {
    throw ProblemError(text(error));
  } catch (const UnsupportedError& error) {
    throw UnsupportedError(text(error));
  }
}

// Whether tensors might share other bytes by choice than they do in a plan.
bool may_choose(const Method& method) {
  const Graph* graph = graph_of(method);
  return graph != nullptr && std::ranges::any_of(graph->ops(), [&](const Op& op) {
           return (method.storage.inplace && !op.inplace.empty()) ||
                  (method.storage.zero_copy && (!op.slices.empty() || !op.concats.empty()));
         });
}

class MethodsSolver {
 public:
  MethodsSolver(std::span<const Method> methods, std::span<const Staying> shared, const ChosenPlanner& planner,
                const PlanOptions& options, const OnPlan& tell)
      : start_(options.start.value_or(std::chrono::steady_clock::now())),
        methods_(methods),
        shared_(shared),
        planner_(planner),
        options_(options),
        tell_(tell) {}

  MethodsPlan run() {
    check_options(options_);
    check_methods(methods_, shared_);
    for (const Method& method : methods_) things_.emplace_back(method);
    for (const Staying& stays : shared_) bytes_.push_back({stays.name, bytes_of(stays, methods_, things_)});
    prepare();
    plan_alone();
    const Joined all = joined(problems(), bytes_);
    Bytes enough = load(all.problem), bound = 0;
    for (const MethodPlan& method : found_) {
      enough = std::max(enough, method.plan.peak);
      bound = std::max(bound, method.plan.lower_bound);
    }
    const Plan whole = plan_whole(all.problem, enough);
    if (!std::ranges::any_of(methods_, may_choose)) bound = std::max(bound, whole.lower_bound);
    lay(all, whole);
    check(whole);
    return {all.problem, whole, std::move(found_), bound, seconds_since(start_)};
  }

 private:
  // With what is left of a time limit, which counts from `begin`.
  PlanOptions options(std::optional<double> limit, std::chrono::steady_clock::time_point begin) const {
    PlanOptions asked = options_;
    asked.capacity = {};
    share_time(asked, limit, begin);
    return asked;
  }

  void prepare() {
    for (std::size_t m = 0; m < methods_.size(); ++m) named(methods_[m], [&] { prepare(m); });
  }

  void prepare(std::size_t m) {
    const Method& method = methods_[m];
    Prepared& ready = prepared_.emplace_back();
    if (graph_of(method) != nullptr) {
      ready = prepared(method, m, shared_);
      StorageOptions storage = method.storage;
      storage.place = ready.place;
      loads_.push_back(methods_.size() == 1 ? 0 : load(buffers_of(*ready.graph, storage).problem));
      problems_.push_back(Problem({}, {}, {}));
      return;
    }
    const Problem& problem = std::get<Problem>(method.source);
    std::vector<bool> staying(at(problem.count()), false);
    for (const Staying& stays : shared_)
      for (const std::string& name : stays.tensors[m]) staying[at(things_[m].find(name)->first)] = true;
    problems_.push_back(alive_throughout(problem, staying, method.storage.alignment));
    loads_.push_back(load(problems_[m]));
  }

  // The one that needs most first: the others have to fit where that one does.
  void plan_alone() {
    std::vector<std::size_t> by_load(methods_.size());
    std::iota(by_load.begin(), by_load.end(), std::size_t{0});
    std::ranges::stable_sort(by_load, std::greater<>(), [&](std::size_t m) { return loads_[m]; });
    std::vector<std::optional<MethodPlan>> found(methods_.size());
    Bytes highest = 0;
    for (const std::size_t m : by_load) {
      found[m] = alone(m, highest);
      highest = std::max(highest, found[m]->plan.peak);
    }
    for (auto& method : found) found_.push_back(std::move(*method));
  }

  // The first plan that peaks at or below `enough` will do, if there is one.
  MethodPlan alone(std::size_t m, Bytes enough) const {
    const auto begin = std::chrono::steady_clock::now();
    const auto share = share_of(options_.time_limit, kShareOfMethods / static_cast<double>(methods_.size()));
    PlanOptions asked = options(share, begin);
    if (enough > 0) asked.capacity = enough;
    return named(methods_[m], [&] {
      try {
        return solved(m, asked);
      } catch (const InfeasibleError&) {
        return solved(m, options(share, begin));
      }
    });
  }

  MethodPlan solved(std::size_t m, const PlanOptions& asked) const {
    const Method& method = methods_[m];
    if (graph_of(method) == nullptr) {
      Plan plan = solve(problems_[m], planner_, asked);
      return {nullptr, {problems_[m], {}, {}, {}, {}, {}, {}}, std::move(plan)};
    }
    const Prepared& ready = prepared_[m];
    StorageOptions storage = method.storage;
    storage.place = ready.place;
    OrderedPlan ordered = solve_in_order(ready.graph, choose_order(method.order), planner_, storage, asked);
    MethodPlan found{std::move(ordered.graph), std::move(ordered.found.buffers), std::move(ordered.found.plan),
                     ordered.bound};
    if (ready.changed()) std::tie(found.graph, found.buffers) = ready.restored(*found.graph, std::move(found.buffers));
    return found;
  }

  std::vector<MethodProblem> problems() const {
    std::vector<MethodProblem> all;
    for (std::size_t m = 0; m < methods_.size(); ++m) {
      const Buffers& buffers = found_[m].buffers;
      all.push_back({methods_[m].name, &buffers.problem, {}});
      for (const Staying& stays : shared_) {
        Spot& spot = all.back().spots.emplace_back();
        if (stays.tensors[m].empty()) continue;
        const Index thing = things_[m].find(stays.tensors[m].front())->first;
        spot = found_[m].graph == nullptr
                   ? Spot{thing, 0}
                   : Spot{buffers.buffer_of_tensor[at(thing)], buffers.offset_in_buffer[at(thing)]};
      }
    }
    return all;
  }

  // The first plan that peaks at or below `enough` will do: a method alone needs as much.
  Plan plan_whole(const Problem& problem, Bytes enough) const {
    PlanOptions asked = options(options_.time_limit, start_);
    if (asked.time_limit) asked.time_limit = std::max(*asked.time_limit, kLeastOfWhole * *options_.time_limit);
    asked.capacity = std::min(enough, options_.capacity.value_or(enough));
    try {
      return solve(problem, planner_, asked, tell_);
    } catch (InfeasibleError& error) {
      const bool fits_at_all = !options_.capacity || error.lower_bound <= *options_.capacity;
      if (!error.plan && error.lower_bound > *asked.capacity && fits_at_all)
        return plan_whole(problem, error.lower_bound);  // pins and reserved bytes may need more
      if (error.plan && fits(*error.plan, options_)) return std::move(*error.plan);
      InfeasibleError none = infeasible(problem, *options_.capacity, error.lower_bound, std::move(error.plan));
      none.buffers = Buffers{problem, {}, {}, {}, {}, {}, {}};
      throw none;
    }
  }

  // Where the buffers of each method lie in the common arena.
  void lay(const Joined& all, const Plan& whole) {
    for (std::size_t m = 0; m < found_.size(); ++m) {
      Plan& plan = found_[m].plan;
      for (std::size_t b = 0; b < plan.offsets.size(); ++b) plan.offsets[b] = whole.offsets[at(all.place[m][b])];
      plan.peak = peak_of(found_[m].buffers.problem, plan.offsets);
      plan.optimal = plan.peak == plan.lower_bound;
      plan.winner = whole.winner;
      plan.seconds = whole.seconds;
      plan.found_after = whole.found_after;
      plan.interrupted |= whole.interrupted;
    }
  }

  void check(const Plan& whole) const {
    std::vector<PlacedMethod> placed;
    for (std::size_t m = 0; m < found_.size(); ++m) {
      const MethodPlan& method = found_[m];
      const Problem& problem = method.buffers.problem;
      throw_if_any(verify(problem, method.plan.offsets, kMaxBytes, kListedViolations), planner_.planner);
      placed.push_back({methods_[m].name, method.graph.get(), {}, &problem, method.plan.offsets});
      if (method.graph == nullptr) continue;
      throw_if_any(replay_all(*method.graph, method.buffers, method.plan.offsets, kListedViolations), planner_.planner);
      placed.back().addresses = addresses_of(method.buffers, method.plan.offsets);
    }
    std::vector<PlacedStaying> staying;
    for (std::size_t s = 0; s < shared_.size(); ++s)
      staying.push_back({shared_[s].name, bytes_[s].bytes, whole.offsets[s], shared_[s].tensors});
    const std::vector<std::string> faults = crossings(placed, staying, whole.peak);
    if (!faults.empty()) throw InvalidPlanError("methods share an arena where they may not: " + faults.front());
  }

  const std::chrono::steady_clock::time_point start_;
  const std::span<const Method> methods_;
  const std::span<const Staying> shared_;
  const ChosenPlanner& planner_;
  const PlanOptions& options_;
  const OnPlan& tell_;
  std::vector<Things> things_ = {};
  std::vector<SharedBytes> bytes_ = {};
  std::vector<Prepared> prepared_ = {};  // of graphs
  std::vector<Problem> problems_ = {};   // of those that are none
  std::vector<Bytes> loads_ = {};
  std::vector<MethodPlan> found_ = {};
};

}  // namespace

MethodsPlan solve_methods(std::span<const Method> methods, std::span<const Staying> shared,
                          const ChosenPlanner& planner, const PlanOptions& options, const OnPlan& tell) {
  return MethodsSolver(methods, shared, planner, options, tell).run();
}

MethodsPlan solve_methods(std::span<const Method> methods, std::span<const Staying> shared, std::string_view planner,
                          const PlanOptions& options, const OnPlan& tell) {
  return solve_methods(methods, shared, choose_planner(planner), options, tell);
}

}  // namespace memplan
