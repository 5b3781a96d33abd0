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
  ++times_[at(rerun.unit)];
  ++size_;
}

void Schedule::remove(const Rerun& rerun) {
  std::vector<Index>& units = again_[at(rerun.stage)];
  units.erase(std::lower_bound(units.begin(), units.end(), rerun.unit));
  --times_[at(rerun.unit)];
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
  for (std::size_t u = 0; u < times_.size(); ++u) {
    const Unit& unit = model_->units[u];
    if (times_[u] > 0) cost += unit.once + times_[u] * unit.cost;
  }
  return cost;
}

double Schedule::cost_of(Index unit) const {
  const Unit& of = model_->units[at(unit)];
  return times_[at(unit)] > 0 ? of.cost : of.once + of.cost;
}

std::vector<FitStep> before_stage(const FitModel& model, Index stage, std::span<const Index> units) {
  std::vector<FitStep> steps;
  bool fetches = false;
  for (const Index u : units) {
    fetches = fetches || model.units[at(u)].moved != kNone;
    for (const Index op : model.units[at(u)].ops) steps.push_back({op, stage, true, u});
  }
  std::sort(steps.begin(), steps.end(), [](const FitStep& a, const FitStep& b) { return a.op < b.op; });
  if (!fetches) return steps;
  for (const Index u : units) {
    if (model.units[at(u)].moved == kNone) continue;
    const std::vector<Index>& items = model.units[at(u)].items;
    const auto reads = [&](const FitStep& step) {
      if (step.op == kNone || model.unit_of_item[at(items.front())] == step.unit) return false;  // it makes them itself
      const std::vector<Index>& uses = model.contents.uses[at(step.op)];
      return std::any_of(items.begin(), items.end(),
                         [&](Index i) { return std::find(uses.begin(), uses.end(), i) != uses.end(); });
    };
    steps.insert(std::find_if(steps.begin(), steps.end(), reads), {kNone, stage, true, u});
  }
  return steps;
}

Walk::Walk(const FitModel& model) : model_(model), alive_(model.contents.items.size()) {}

void Walk::run(const Schedule& schedule) {
  const ContentsModel& contents = model_.contents;
  steps.clear();
  first.clear();
  for (Index k = 0; k < model_.op_count(); ++k) {
    first.push_back(static_cast<Index>(steps.size()));
    if (!schedule.again(k).empty()) {
      const std::vector<FitStep> before = before_stage(model_, k, schedule.again(k));
      steps.insert(steps.end(), before.begin(), before.end());
    }
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
    const bool again = steps[s].again;
    const Index op = steps[s].op;
    const std::vector<Index>&makes = this->makes(steps[s]), &reads = this->reads(steps[s]);
    work_ += static_cast<std::int64_t>(makes.size() + reads.size() + 2);
    Bytes now = alive;
    if (op == kNone) {
      for (const Index i : makes) now += contents.items[at(i)].bytes;
    } else {
      saved[s] = contents.written_over(op, [&](Index i) { return alive_[at(i)] == 0; });
      now += contents.making[at(op)] - saved[s];
    }
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
    for (const Index i : makes(step)) ++begin_[at(i) + 1];
    for (const Index i : reads(step)) ++begin_[at(i) + 1];
  }
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  events_.resize(begin_.back());
  std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const Index i : reads(steps[s])) events_[next[at(i)]++] = {static_cast<Index>(s), false};
    for (const Index i : makes(steps[s]))
      events_[next[at(i)]++] = {static_cast<Index>(s), !(steps[s].again && contents.items[at(i)].kept)};
  }
}

}  // namespace memplan
