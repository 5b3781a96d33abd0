// FitSearch: the cheapest schedule within a capacity that is found.
//
// Greedy: as long as a step is above the capacity, the unit that frees most for its cost runs again. Then units that
// are not needed any more are taken away, the dearest first. After that, again and again, some units are taken away,
// and the greedy search finds others in their place.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/chance.hpp"
#include "base/deadline.hpp"
#include "fit/candidates.hpp"

namespace memplan {

class FitSearch {
 public:
  FitSearch(const FitModel& model, Bytes capacity, const Deadline& deadline)
      : model_(model), capacity_(capacity), deadline_(deadline), walk_(model), candidates_(model, capacity) {}

  // The best schedule found within the work, from `start` on; no value if no schedule was found. `work` is what is
  // left. `price` is per op, as of prices.hpp; a schedule of cost `enough` ends the search.
  std::optional<Schedule> run(const Schedule& start, std::span<const double> price, double enough, std::int64_t& work);

  Bytes least_load() const { return least_load_; }  // of all that was tried
  bool ended() const { return ended_; }

 private:
  class Choices;

  bool repair(Schedule& schedule, double noise, std::span<const double> price);
  bool step(Schedule& schedule, double noise, std::span<const double> price);
  bool lowers(Schedule& schedule, const std::vector<Rerun>& reruns, double most);
  bool brings_the_same(const Rerun& a, const Rerun& b) const;
  void prune(Schedule& schedule, std::size_t most);
  void ruin(Schedule& schedule);
  Schedule annealed(Schedule best, std::span<const double> price, double enough);
  void walk(const Schedule& schedule);
  void look_around();
  double over() const;

  const FitModel& model_;
  Bytes capacity_;
  const Deadline& deadline_;
  Walk walk_;
  Candidates candidates_;
  Chance chance_{1};
  std::int64_t* work_ = nullptr;
  Bytes least_load_ = kMaxBytes;
  bool ended_ = false;
};

}  // namespace memplan
