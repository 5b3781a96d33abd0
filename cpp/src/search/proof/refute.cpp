#include "memplan/refute.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "memplan/errors.hpp"
#include "memplan/features.hpp"
#include "search/valley/valley_search.hpp"

namespace memplan {

namespace {

void require_plain(const Problem& problem) {
  const unsigned features = features_of(problem) & ~unsigned{kAlignment};
  std::string list;
  for (std::string_view name : feature_names(features)) list += (list.empty() ? "" : ", ") + std::string(name);
  if (!problem.together().empty()) list += std::string(list.empty() ? "" : ", ") + "distances";
  if (list.empty()) return;
  throw UnsupportedError("refute does not support " + list + ", which this problem asks for" +
                         (problem.has_branches() ? "" : "; refute_pairs does"));
}

// Per section, the step that it is: the last birth there.
std::vector<Step> steps_of(const Sections& sections, const Problem& problem) {
  std::vector<Step> steps(static_cast<std::size_t>(sections.count), std::numeric_limits<Step>::min());
  for (Index x = 0; x < sections.items(); ++x) {
    Step& step = steps[sections.first[x]];
    step = std::max(step, problem.first(sections.buffer[x]));
  }
  return steps;
}

std::optional<std::vector<RefutationNode>> proof_of(const Problem& problem, Bytes capacity, std::int64_t work,
                                                    std::uint64_t seed, const Deadline& deadline) {
  const Sections sections(problem, deadline);
  Record record;
  ValleySearch search(sections, seed, deadline, {}, &record);
  const ValleySearch::Limits limits{std::numeric_limits<std::int64_t>::max(), work, deadline};
  if (search.run(capacity, 0, limits) != ValleySearch::Outcome::infeasible) return std::nullopt;
  const std::vector<Step> steps = steps_of(sections, problem);
  std::vector<RefutationNode> nodes;
  nodes.reserve(record.nodes().size());
  for (const Record::Node& node : record.nodes()) {
    const Index buffer = node.item == kNone ? kNone : sections.buffer[node.item];
    nodes.push_back({node.parent, buffer, node.height, steps[node.section]});
  }
  return nodes;
}

}  // namespace

std::optional<std::vector<RefutationNode>> refute(const Problem& problem, Bytes capacity, std::int64_t work,
                                                  const PlanOptions& options) {
  require_plain(problem);
  try {
    return proof_of(problem, capacity, work, options.seed, Deadline(options));
  } catch (const EndedError&) {
    return std::nullopt;
  }
}

}  // namespace memplan
