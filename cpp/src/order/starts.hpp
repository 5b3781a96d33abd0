// Starts: the given order and those of all lists, as they are and in blocks. Searches begin with the best of them.
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

// Adds to the candidates; when the deadline throws, those that were made by then are there, the given order at least.
void add_starts(const OrderTask& task, const Blocks& blocks, std::vector<Candidate>& candidates);

// The best ones first; of equal ones, those that were added first.
void sort_candidates(std::vector<Candidate>& candidates);

}  // namespace memplan
