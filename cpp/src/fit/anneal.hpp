// Anneal: a schedule made cheaper by many small moves, through schedules above the capacity too.
//
// A move adds a rerun with the inputs that it lacks, removes a rerun with the reruns that served it alone, or takes a
// rerun to another stage. Bytes above the capacity have a price, per stage. It rises at stages that stay above, and
// falls while most schedules fit. Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983).
#pragma once

#include <span>
#include <vector>

#include "base/chance.hpp"
#include "base/deadline.hpp"
#include "fit/live_schedule.hpp"

namespace memplan {

class Anneal {
 public:
  // `start` is within the capacity. `price` is per op, as of prices.hpp, or empty.
  Anneal(const FitModel& model, Bytes capacity, const Schedule& start, std::span<const double> price,
         const Deadline& deadline, Chance& chance);

  // Makes moves until the work is used up, or a schedule costs no more than `enough`; false if the deadline ended it.
  // `work` is the work that is left.
  bool run(double enough, std::int64_t& work);

  Schedule best() const;  // within the capacity

 private:
  void toggle(const Rerun& rerun);
  void add(const Rerun& rerun, int depth);
  void remove(const Rerun& rerun);
  void remove_useless(Index item, Index stage);
  void add_any();
  void shift(const Rerun& rerun);
  void move();
  void undo();
  void keep_if_best();
  void adapt_prices(int fitting);
  Index way_of(Index item);

  const FitModel& model_;
  const Deadline& deadline_;
  Chance& chance_;
  LiveSchedule live_;
  double cost_ = 0;             // of the schedule
  double most_cost_ = 0;        // a move that costs more is given up
  double least_price_ = 0;      // that a stage begins with
  std::vector<Rerun> now_;      // the reruns, in any order
  std::vector<Rerun> toggled_;  // by the move
  std::vector<Index> movable_;  // items
  std::vector<Rerun> best_;
  double best_cost_ = 0;
};

}  // namespace memplan
