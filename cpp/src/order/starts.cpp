#include "order/starts.hpp"

#include <algorithm>
#include <utility>

#include "order/lists.hpp"

namespace memplan {

Candidate candidate_of(const ContentsModel& model, FoundOrder order) {
  const Height height = height_of(needs_of(model, order.ops));
  return {std::move(order), height};
}

void add_starts(const OrderTask& task, const Blocks& blocks, std::vector<Candidate>& candidates) {
  const auto keep = [&](FoundOrder order) {
    candidates.push_back(candidate_of(task.model, std::move(order)));
    task.tell.order(candidates.back().order.name, candidates.back().height.load);
  };
  const auto add = [&](const std::string& name, std::vector<Index> ops) {
    std::vector<Index> together = joined(in_blocks(blocks, ops));
    const bool is_other = together != ops;
    keep({name, std::move(ops)});
    if (is_other) keep({name + "+blocks", std::move(together)});
  };
  if (candidates.empty()) add("given", as_given(task.model));
  for (const ListRule& rule : list_rules()) {
    add(std::string(rule.name), list_order(task.model, rule, task.deadline));
  }
  add("hill_valley", hill_valley(task.model, blocks, task.deadline));
}

void sort_candidates(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.height < b.height; });
}

}  // namespace memplan
