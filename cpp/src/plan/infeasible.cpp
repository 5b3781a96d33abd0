#include "memplan/infeasible.hpp"

#include <algorithm>

#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr std::size_t kListedBuffers = 10;  // buffers that a message lists

std::string needed(Bytes capacity, Bytes lower_bound, const std::optional<Plan>& plan) {
  const std::string fits = "fits a capacity of " + std::to_string(capacity) + " bytes: ";
  const std::string least = "at least " + std::to_string(lower_bound);
  if (lower_bound > capacity || !plan) return "no plan " + fits + least + " bytes are needed";
  const std::string cut = plan->interrupted ? " when it was interrupted" : "";
  return "no plan was found that " + fits + "the best plan of planner " + quoted(plan->planner) + " peaks at " +
         std::to_string(plan->peak) + cut + "; " + least + " are needed";
}

std::string described(const Problem& problem, const TightestStep::User& user) {
  const Bytes size = problem.size(user.buffer);
  const std::string whole = user.bytes < size ? " of its " + std::to_string(size) : "";
  return "\n  buffer " + quoted(problem.name(user.buffer)) + " with " + std::to_string(user.bytes) + whole +
         " bytes, alive in [" + std::to_string(problem.first(user.buffer)) + ", " +
         std::to_string(problem.last(user.buffer)) + ")";
}

std::string described(const Problem& problem, const TightestStep& tightest) {
  const std::size_t listed = std::min(tightest.users.size(), kListedBuffers);
  std::string text = "\nmost is alive at step " + std::to_string(tightest.step) + ", " +
                     std::to_string(tightest.bytes) + " bytes of " + std::to_string(tightest.users.size()) +
                     (tightest.users.size() == 1 ? " buffer:" : " buffers:");
  Bytes rest = tightest.bytes;
  for (std::size_t k = 0; k < listed; ++k) {
    text += described(problem, tightest.users[k]);
    rest -= tightest.users[k].bytes;
  }
  const std::size_t more = tightest.users.size() - listed;
  if (more > 0) text += "\n  … and " + std::to_string(more) + " more with " + std::to_string(rest) + " bytes";
  return text;
}

}  // namespace

InfeasibleError infeasible(const Problem& problem, Bytes capacity, Bytes lower_bound, std::optional<Plan> plan,
                           std::optional<Buffers> buffers) {
  const TightestStep tightest = tightest_step(problem);
  InfeasibleError error(needed(capacity, lower_bound, plan) + described(problem, tightest));
  error.capacity = capacity;
  error.lower_bound = lower_bound;
  error.plan = std::move(plan);
  error.buffers = std::move(buffers);
  error.step = tightest.step;
  for (const TightestStep::User& user : tightest.users) error.alive.push_back(problem.name(user.buffer));
  return error;
}

void require_room(const Problem& problem, Bytes capacity) {
  if (const Bytes least = load(problem); least > capacity) throw infeasible(problem, capacity, least);
}

void require_fit(const Problem& problem, Bytes capacity, const Plan& plan, std::optional<Buffers> buffers) {
  if (plan.peak > capacity) throw infeasible(problem, capacity, plan.lower_bound, plan, std::move(buffers));
}

}  // namespace memplan
