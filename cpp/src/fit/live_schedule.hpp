// LiveSchedule: a schedule and the bytes that its stages need, kept up to date while reruns are added and taken away.
//
// A stage is an op of the order, and the reruns before it. Between two stages that touch an item, the item is alive if
// the later one reads it before making it. So adding or removing one rerun changes few items, and the needs of few
// stages.
#pragma once

#include <span>
#include <vector>

#include "fit/schedule.hpp"

namespace memplan {

// A stage that touches an item.
struct Touch {
  Index stage = 0;
  bool in = false;  // the item has to be alive before it
};

class LiveSchedule {
 public:
  LiveSchedule(const FitModel& model, Bytes capacity);

  // Adds a rerun, or takes it away. O(stages between the touches of items that it makes and needs).
  void toggle(const Rerun& rerun);
  const Schedule& schedule() const { return schedule_; }

  // The bytes above the capacity, summed over stages, each at the price of its stage. Prices begin at 1.
  double over() const { return over_; }
  void set_prices(std::vector<double> prices);
  const std::vector<double>& prices() const { return price_; }
  bool is_over(Index stage) const { return most_[at(stage)] > capacity_; }
  bool fits() const { return stages_over_ == 0; }
  std::int64_t work() const { return work_; }  // done so far

  std::span<const Touch> touches(Index item) const { return touches_[at(item)]; }  // by stage
  bool alive_before(Index item, Index stage) const;
  bool alive_after(Index item, Index stage) const;

  // Whether nothing uses the items that a rerun makes.
  bool is_useless(const Rerun& rerun) const;

 private:
  struct Touched {
    Index item;
    bool in;
  };

  void look_at(Index stage);  // finds the items that it touches
  void change(Index item, Index stage, const Touched* before, const Touched* after);
  void measure(Index stage);
  const std::vector<Index>& makes(const FitStep& step) const;
  const std::vector<Index>& reads(const FitStep& step) const;
  double over_of(Index begin, Index end);

  const FitModel& model_;
  Bytes capacity_;
  Schedule schedule_;
  std::vector<std::vector<FitStep>> steps_;    // per stage
  std::vector<std::vector<Touched>> touched_;  // per stage, by item
  std::vector<std::vector<Touch>> touches_;    // per item, by stage
  std::vector<Bytes> alive_;                   // before each stage, and at the end
  std::vector<Bytes> above_;                   // per stage: its need minus the bytes alive after it
  std::vector<Bytes> most_;                    // per stage
  std::vector<double> price_;                  // per stage
  double over_ = 0;
  Index stages_over_ = 0;
  std::int64_t work_ = 0;

  struct Change {
    Index begin, end;
    Bytes bytes;
  };
  std::vector<Change> changes_;
  std::vector<Index> dirty_;
  std::vector<char> is_alive_;  // scratch, per item
};

}  // namespace memplan
