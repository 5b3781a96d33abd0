// Schedule: which units run again before which ops, and the bytes that each step then needs.
//
// A schedule is a set of units, each with the stage at which it runs again: stage k is right before op k. Every use
// reads the latest copy. So an item is alive from each time it is made to its last use before it is made again. Tensors
// are moved out as soon as their bytes are final. They are alive then anyway, so that needs no bytes.
#pragma once

#include <span>
#include <vector>

#include "fit/fit_model.hpp"

namespace memplan {

// A unit at a stage.
struct Rerun {
  Index stage = 0;
  Index unit = 0;

  auto operator<=>(const Rerun&) const = default;
};

class Schedule {
 public:
  explicit Schedule(const FitModel& model)
      : again_(at(model.op_count())), times_(model.units.size(), 0), model_(&model) {}

  bool contains(const Rerun& rerun) const;
  void add(const Rerun& rerun);
  void remove(const Rerun& rerun);
  const std::vector<Index>& again(Index stage) const { return again_[at(stage)]; }  // units, ascending
  std::vector<Rerun> reruns() const;
  double cost() const;
  double cost_of(Index unit) const;  // of another rerun of it
  std::size_t size() const { return size_; }

 private:
  std::vector<std::vector<Index>> again_;  // per stage
  std::vector<Index> times_;               // per unit, how often it runs again
  const FitModel* model_;
  std::size_t size_ = 0;
};

// An op that runs, for the first time or again; or no op, but a tensor that is fetched.
struct FitStep {
  Index op = 0;  // or kNone
  Index stage = 0;
  bool again = false;
  Index unit = kNone;  // that runs again
};

// The reruns of a stage, before its op: ops in their order, and each fetch before the first of them that reads the
// tensor.
std::vector<FitStep> before_stage(const FitModel& model, Index stage, std::span<const Index> units);

// Where an item is made or used in a walk.
struct ItemEvent {
  Index step = 0;
  bool made = false;
};

// A walk through a schedule. Its arrays are kept from one walk to the next.
class Walk {
 public:
  explicit Walk(const FitModel& model);

  // O(reads and writes of all steps).
  void run(const Schedule& schedule);

  std::size_t size() const { return steps.size(); }
  Bytes load() const { return load_; }
  std::int64_t work() const { return work_; }  // of one walk

  // The events of an item, which were collected last.
  std::span<const ItemEvent> events(Index item) const {
    return {events_.data() + begin_[at(item)], events_.data() + begin_[at(item) + 1]};
  }
  void collect_events();

  // The items that a step makes and that are not kept already, and the items that it reads.
  const std::vector<Index>& makes(const FitStep& step) const {
    return step.op == kNone ? model_.units[at(step.unit)].items : model_.contents.makes[at(step.op)];
  }
  const std::vector<Index>& reads(const FitStep& step) const {
    return step.op == kNone ? model_.units[at(step.unit)].needs : model_.contents.uses[at(step.op)];
  }

  std::vector<FitStep> steps;
  std::vector<Bytes> need;   // per step
  std::vector<Bytes> saved;  // per step, by outputs over inputs; `need` is less by it
  std::vector<Index> first;  // per stage, its first step; and the number of steps

 private:
  const FitModel& model_;
  std::vector<char> alive_;
  std::vector<ItemEvent> events_;
  std::vector<std::size_t> begin_;
  Bytes load_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace memplan
