// Starts: the given order and the orders of all lists, as they are and in blocks. Searches begin with the best of them.
#pragma once

#include <vector>

#include "order/blocks.hpp"
#include "order/improving.hpp"
#include "order/rules.hpp"

namespace memplan {

struct Candidate {
  FoundOrder order;
  Height height;
};

Candidate candidate_of(const ContentsModel& model, FoundOrder order);

// Adds to the candidates. If the deadline throws, all orders made by then are there, the given order at least.
void add_starts(const OrderTask& task, const Blocks& blocks, std::vector<Candidate>& candidates);

// The best first; of equally good orders, the one that was added first comes first.
void sort_candidates(std::vector<Candidate>& candidates);

}  // namespace memplan
