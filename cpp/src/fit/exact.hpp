// Exact: the least cost of any schedule of a small graph, by Dijkstra's search through sets of alive items.
//
// A state is how many ops of the order have run, which items are alive, and which were fetched already. From it an op
// runs, for the first time or again, a tensor is fetched, and items go. While an op runs, its bytes have to be within
// the capacity; it may write over inputs that go with it. Items are counted as in the cover: no choice of sharing needs
// less. So the cost is a lower bound. If the schedule fits, its cost is the optimum.
#pragma once

#include <optional>
#include <vector>

#include "fit/schedule.hpp"

namespace memplan {

struct Exact {
  bool feasible = false;  // in the model; then:
  double cost = 0;
  std::vector<Rerun> reruns;  // in the order in which they run
};

// No value if the graph is too large: more than 24 items or 64 ops, or more states than `most`.
std::optional<Exact> exact(const FitModel& model, Bytes capacity, std::size_t most);

}  // namespace memplan
