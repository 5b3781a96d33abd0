#include "fit/schedule.hpp"

#include <algorithm>

namespace memplan {

bool Schedule::contains(const Rerun& rerun) const {
  const std::vector<Index>& units = again_[at(rerun.stage)];
  return std::binary_search(units.begin(), units.end(), rerun.unit);
}

void Schedule::add(const Rerun& rerun) {
  std::vector<Index>& units = again_[at(rerun.stage)];
  units.insert(std::lower_bound(units.begin(), units.end(), rerun.unit), rerun.unit);
  ++size_;
}

void Schedule::remove(const Rerun& rerun) {
  std::vector<Index>& units = again_[at(rerun.stage)];
  units.erase(std::lower_bound(units.begin(), units.end(), rerun.unit));
  --size_;
}

std::vector<Rerun> Schedule::reruns() const {
  std::vector<Rerun> all;
  for (std::size_t k = 0; k < again_.size(); ++k)
    for (const Index unit : again_[k]) all.push_back({static_cast<Index>(k), unit});
  return all;
}

double Schedule::cost() const {
  double cost = 0;
  for (const std::vector<Index>& units : again_)
    for (const Index unit : units) cost += model_->units[at(unit)].cost;
  return cost;
}

Walk::Walk(const FitModel& model) : model_(model), alive_(model.contents.items.size()) {}

void Walk::run(const Schedule& schedule) {
  const ContentsModel& contents = model_.contents;
  steps.clear();
  first.clear();
  for (Index k = 0; k < model_.op_count(); ++k) {
    first.push_back(static_cast<Index>(steps.size()));
    ops_.clear();
    for (const Index unit : schedule.again(k)) {
      const std::vector<Index>& ops = model_.units[at(unit)].ops;
      ops_.insert(ops_.end(), ops.begin(), ops.end());
    }
    std::sort(ops_.begin(), ops_.end());
    ops_.erase(std::unique(ops_.begin(), ops_.end()), ops_.end());
    for (const Index op : ops_) steps.push_back({op, k, true});
    steps.push_back({k, k, false});
  }
  first.push_back(static_cast<Index>(steps.size()));

  need.assign(steps.size(), 0);
  saved.assign(steps.size(), 0);
  Bytes alive = 0;
  for (std::size_t i = 0; i < contents.items.size(); ++i) {
    alive_[i] = contents.items[i].kept;
    if (alive_[i] != 0) alive += contents.items[i].bytes;
  }
  load_ = alive;
  work_ = 0;
  for (std::size_t s = steps.size(); s-- > 0;) {
    const auto [op, stage, again] = steps[s];
    const std::vector<Index>&makes = contents.makes[at(op)], &reads = contents.uses[at(op)];
    work_ += static_cast<std::int64_t>(makes.size() + reads.size() + 2);
    saved[s] = contents.written_over(op, [&](Index i) { return alive_[at(i)] == 0; });
    Bytes now = alive + contents.making[at(op)] - saved[s];
    for (const Index i : makes)
      if (alive_[at(i)] != 0 && !(again && contents.items[at(i)].kept)) now -= contents.items[at(i)].bytes;
    for (const Index i : reads)
      if (alive_[at(i)] == 0) now += contents.items[at(i)].bytes;
    need[s] = now;
    load_ = std::max(load_, now);
    for (const Index i : makes) {
      if (alive_[at(i)] == 0 || (again && contents.items[at(i)].kept)) continue;
      alive_[at(i)] = 0;
      alive -= contents.items[at(i)].bytes;
    }
    for (const Index i : reads) {
      if (alive_[at(i)] != 0) continue;
      alive_[at(i)] = 1;
      alive += contents.items[at(i)].bytes;
    }
  }
}

void Walk::collect_events() {
  const ContentsModel& contents = model_.contents;
  begin_.assign(contents.items.size() + 1, 0);
  for (const FitStep& step : steps) {
    for (const Index i : contents.makes[at(step.op)]) ++begin_[at(i) + 1];
    for (const Index i : contents.uses[at(step.op)]) ++begin_[at(i) + 1];
  }
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  events_.resize(begin_.back());
  std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const Index op = steps[s].op;
    for (const Index i : contents.uses[at(op)]) events_[next[at(i)]++] = {static_cast<Index>(s), false};
    for (const Index i : contents.makes[at(op)])
      events_[next[at(i)]++] = {static_cast<Index>(s), !(steps[s].again && contents.items[at(i)].kept)};
  }
}

}  // namespace memplan
