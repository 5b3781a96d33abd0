#include "pools/pool_placer.hpp"

#include <algorithm>

#include "memplan/bounds.hpp"
#include "memplan/plan.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kWorkPerBuffer = 200;  // of a placement that is easy
constexpr std::size_t kMostKnown = 10'000;

}  // namespace

PoolPlacer::PoolPlacer(const PoolProblems& problems, const ChosenPlanner& planner, const PlanOptions& options,
                       std::int64_t effort, const Deadline& deadline)
    : problems_(problems), planner_(planner), options_(options), effort_(effort), deadline_(deadline) {}

const PoolAnswer& PoolPlacer::place(const std::vector<Index>& members, std::size_t pool, Bytes enough) {
  if (known_.size() > kMostKnown) known_.clear();
  const auto [entry, is_new] = known_.try_emplace({pool, members});
  PoolAnswer& answer = entry->second;
  const bool decided = answer.peak <= std::max(enough, answer.bound) || answer.bound > enough;
  if (is_new || (!decided && enough < answer.asked)) {
    try {
      answer = placed(members, pool, enough);
    } catch (...) {
      known_.erase(entry);
      throw;
    }
  }
  return answer;
}

PoolAnswer PoolPlacer::placed(const std::vector<Index>& members, std::size_t pool, Bytes enough) {
  deadline_.check();
  PoolAnswer answer;
  if (members.empty()) return answer;
  const Problem problem = problems_.in(pool).subset(members);
  answer.bound = std::max(load(problem), end_of_pins(problem));
  answer.asked = enough;
  PlanOptions options = options_;
  options.improved = {};
  options.start.reset();
  options.time_limit = deadline_.left();
  options.capacity = std::max(enough, answer.bound);
  options.lower_bound = answer.bound;
  options.set = planner_.set;
  for (const Parameter& parameter : planner_.planner.parameters)
    if (parameter.name == "effort" || parameter.name == "work") options.set.emplace_back(parameter.name, effort_);
  Placement placement = run(planner_.planner, problem, options);
  answer.peak = peak_of(problem, placement.offsets);
  answer.bound = std::max(answer.bound, placement.lower_bound);
  answer.offsets = std::move(placement.offsets);
  const bool decided = answer.peak <= enough || answer.bound > enough;
  work_ += decided ? kWorkPerBuffer * static_cast<std::int64_t>(members.size()) : effort_;
  return answer;
}

}  // namespace memplan
