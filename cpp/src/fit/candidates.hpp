// Candidates: units that would run again at a stage, by the bytes that this frees for its cost.
//
// An item is away between two uses if its unit runs again right before the later one. Its bytes count at steps above
// the capacity only. If an input of the unit is gone, it stays a little longer, or its own unit runs again too.
#pragma once

#include <optional>
#include <vector>

#include "fit/schedule.hpp"

namespace memplan {

struct RerunCandidate {
  Rerun rerun;
  double freed = 0;  // bytes x steps, as far as these are above the capacity
  double worth = 0;  // the same, each byte at the price that its step was given
  double score = 0;  // worth / cost of the unit, without the units of its inputs
};

class Candidates {
 public:
  Candidates(const FitModel& model, Bytes capacity) : model_(model), capacity_(capacity) {}

  // Collects the candidates of a schedule from its walk. `price` has, per op, the worth of a byte while the op runs for
  // the first time. Without prices, all steps above the capacity are worth the same.
  void look(const Schedule& schedule, const Walk& walk, std::span<const double> price = {});

  // Prepares the questions below: sums of bytes above the capacity, and the needs of blocks of steps.
  void measure(const Walk& walk, std::span<const double> price = {});

  // Whether the items of a rerun could stay alive instead, as far as its own bytes are concerned.
  bool may_go(const Walk& walk, const Rerun& rerun) const;

  double over() const { return over_; }  // bytes x steps above the capacity

  const std::vector<RerunCandidate>& all() const { return all_; }

  // All units that have to run again for a unit at a stage, that unit last; empty if they are more than `most`.
  std::optional<std::vector<Rerun>> with_inputs(const Schedule& schedule, const Walk& walk, const Rerun& rerun) const;

 private:
  bool there(const Walk& walk, Index item, Index stage) const;
  Rerun way_back(const Schedule& schedule, Index item, Index stage) const;
  bool may_stay(const Walk& walk, Index item, Index stage) const;
  Bytes most_between(const Walk& walk, Index begin, Index end) const;

  const FitModel& model_;
  Bytes capacity_;
  double over_ = 0;
  std::vector<double> worth_until_;
  std::vector<double> over_until_;     // per step: the sum before it
  std::vector<Index> too_much_until_;  // per step: how many are above the capacity before it
  std::vector<Bytes> most_of_block_;   // of the needs
  std::vector<RerunCandidate> all_;
};

}  // namespace memplan
