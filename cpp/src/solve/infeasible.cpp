#include "memplan/infeasible.hpp"

#include <algorithm>

#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr std::size_t kListedBuffers = 10;  // buffers that a message lists

// `why`: what needs more than the bytes that are in use; or nothing.
std::string needed(Bytes capacity, Bytes lower_bound, const std::optional<Plan>& plan, const std::string& why) {
  const std::string fits = "fits a capacity of " + std::to_string(capacity) + " bytes: ";
  const std::string least = "at least " + std::to_string(lower_bound);
  if (lower_bound > capacity || !plan) return "no plan " + fits + least + " bytes are needed" + why;
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

std::string bytes_of(Bytes bytes, const std::vector<TightestStep::User>& users) {
  return std::to_string(bytes) + " bytes of " + std::to_string(users.size()) +
         (users.size() == 1 ? " buffer:" : " buffers:");
}

std::string users_text(const Problem& problem, const std::vector<TightestStep::User>& users) {
  std::string text;
  const std::size_t count = std::min(users.size(), kListedBuffers);
  for (std::size_t k = 0; k < count; ++k) text += described(problem, users[k]);
  const std::size_t more = users.size() - count;
  Bytes rest = 0;
  for (std::size_t k = count; k < users.size(); ++k) rest += users[k].bytes;
  if (more > 0) text += "\n  … and " + std::to_string(more) + " more with " + std::to_string(rest) + " bytes";
  return text;
}

// Who makes the clique, most bytes first, then by index.
std::vector<TightestStep::User> users_of(const Clique& clique) {
  std::vector<TightestStep::User> users;
  for (const CliqueMember& member : clique.members) {
    if (users.empty() || users.back().buffer != member.buffer) users.push_back({member.buffer, 0});
    users.back().bytes += member.end - member.begin;
  }
  std::stable_sort(users.begin(), users.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return users;
}

}  // namespace

InfeasibleError infeasible(const Problem& problem, Bytes capacity, Bytes lower_bound, std::optional<Plan> plan,
                           std::optional<Buffers> buffers) {
  TightestStep tightest = tightest_step(problem);
  Clique clique = heaviest_clique(problem);
  const bool needs_more = clique.bytes > tightest.bytes;
  const std::vector<TightestStep::User> users = needs_more ? users_of(clique) : std::move(tightest.users);
  const std::string why = needs_more ? "no two of these may share bytes, for they are alive together or conflict, "
                                     : "most is alive at step " + std::to_string(tightest.step) + ", ";
  const Bytes in_use = needs_more ? clique.bytes : tightest.bytes;
  const bool has_gaps = lower_bound > in_use && aligned_load(problem) > in_use;
  InfeasibleError error(needed(capacity, lower_bound, plan, has_gaps ? ", as alignments leave gaps" : "") + "\n" + why +
                        bytes_of(in_use, users) + users_text(problem, users));
  error.capacity = capacity;
  error.lower_bound = lower_bound;
  error.plan = std::move(plan);
  error.buffers = std::move(buffers);
  error.step = tightest.step;
  if (needs_more) error.clique = std::move(clique);
  for (const TightestStep::User& user : users) error.alive.push_back(problem.name(user.buffer));
  return error;
}

void require_fit(const Problem& problem, Bytes capacity, const Plan& plan, std::optional<Buffers> buffers) {
  if (plan.peak > capacity) throw infeasible(problem, capacity, plan.lower_bound, plan, std::move(buffers));
}

}  // namespace memplan
