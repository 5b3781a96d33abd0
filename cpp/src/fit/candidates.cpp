#include "fit/candidates.hpp"

#include <algorithm>

namespace memplan {

namespace {

constexpr Index kBlock = 64;
constexpr std::size_t kMostInputs = 200;  // units that run again for one

}  // namespace

void Candidates::measure(const Walk& walk, std::span<const double> price) {
  over_until_.assign(1, 0);
  too_much_until_.assign(1, 0);
  worth_until_.assign(1, 0);
  most_of_block_.assign(walk.size() / kBlock + 1, 0);
  for (std::size_t s = 0; s < walk.size(); ++s) {
    const Bytes over = std::max<Bytes>(walk.need[s] - capacity_, 0);
    over_until_.push_back(over_until_.back() + static_cast<double>(over));
    too_much_until_.push_back(too_much_until_.back() + (over > 0 ? 1 : 0));
    const FitStep& step = walk.steps[s];
    worth_until_.push_back(worth_until_.back() + (price.empty() || step.again ? 0 : price[at(step.op)]));
    Bytes& most = most_of_block_[s / kBlock];
    most = std::max(most, walk.need[s]);
  }
  over_ = over_until_.back();
}

void Candidates::look(const Schedule& schedule, const Walk& walk, std::span<const double> price) {
  measure(walk, price);
  all_.clear();
  for (Index i = 0; i < static_cast<Index>(model_.unit_of_item.size()); ++i) {
    const Bytes bytes = model_.contents.items[at(i)].bytes;
    const Index ways[] = {model_.unit_of_item[at(i)], model_.fetch_of_item[at(i)]};
    if ((ways[0] == kNone && ways[1] == kNone) || bytes == 0) continue;
    const std::span<const ItemEvent> events = walk.events(i);
    for (std::size_t e = 1; e < events.size(); ++e) {
      const Index begin = events[e - 1].step + 1, end = events[e].step;
      if (events[e].made || begin >= end) continue;
      const Index steps = too_much_until_[at(end)] - too_much_until_[at(begin)];
      if (steps == 0) continue;
      const double freed = std::min(static_cast<double>(bytes) * steps, over_until_[at(end)] - over_until_[at(begin)]);
      const double priced = static_cast<double>(bytes) * (worth_until_[at(end)] - worth_until_[at(begin)]);
      const double worth = price.empty() ? freed : priced + 1e-6 * freed / over_;
      for (const Index unit : ways) {
        const Rerun rerun{walk.steps[at(end)].stage, unit};
        if (model_.may_run_again(unit, rerun.stage) && !schedule.contains(rerun))
          all_.push_back({rerun, freed, worth, 0});
      }
    }
  }
  std::sort(all_.begin(), all_.end(),
            [](const RerunCandidate& a, const RerunCandidate& b) { return a.rerun < b.rerun; });
  std::size_t kept = 0;
  for (std::size_t c = 0; c < all_.size(); ++c) {
    if (kept > 0 && all_[kept - 1].rerun == all_[c].rerun) {
      all_[kept - 1].freed += all_[c].freed;
      all_[kept - 1].worth += all_[c].worth;
    } else {
      all_[kept++] = all_[c];
    }
  }
  all_.resize(kept);
}

Bytes Candidates::most_between(const Walk& walk, Index begin, Index end) const {
  Bytes most = 0;
  for (Index s = begin; s < end;) {
    if (s % kBlock == 0 && s + kBlock <= end) {
      most = std::max(most, most_of_block_[at(s / kBlock)]);
      s += kBlock;
    } else {
      most = std::max(most, walk.need[at(s++)]);
    }
  }
  return most;
}

// Whether an item is alive where the stage begins, or is made again at that stage.
bool Candidates::there(const Walk& walk, Index item, Index stage) const {
  const std::span<const ItemEvent> events = walk.events(item);
  const Index begin = walk.first[at(stage)], end = walk.first[at(stage) + 1];
  const auto next = std::partition_point(events.begin(), events.end(),
                                         [begin](const ItemEvent& event) { return event.step < begin; });
  const Content& content = model_.contents.items[at(item)];
  if (next == events.begin()) return content.maker == kNone;
  if (content.kept) return true;
  return next != events.end() && (!next->made || next->step < end);
}

// Whether an item may stay from its last use until the stage without a step above the capacity.
bool Candidates::may_stay(const Walk& walk, Index item, Index stage) const {
  const std::span<const ItemEvent> events = walk.events(item);
  const Index begin = walk.first[at(stage)];
  const auto next = std::partition_point(events.begin(), events.end(),
                                         [begin](const ItemEvent& event) { return event.step < begin; });
  if (next == events.begin()) return true;
  return most_between(walk, std::prev(next)->step + 1, begin) + model_.contents.items[at(item)].bytes <= capacity_;
}

// How an item comes back for another: the way that is cheaper by itself.
Rerun Candidates::way_back(const Schedule& schedule, Index item, Index stage) const {
  const Index again = model_.unit_of_item[at(item)], fetch = model_.fetch_of_item[at(item)];
  if (!model_.may_run_again(fetch, stage)) return {stage, again};
  if (!model_.may_run_again(again, stage)) return {stage, fetch};
  return {stage, schedule.cost_of(fetch) < schedule.cost_of(again) ? fetch : again};
}

bool Candidates::may_go(const Walk& walk, const Rerun& rerun) const {
  const Index stage_begin = walk.first[at(rerun.stage)], stage_end = walk.first[at(rerun.stage) + 1];
  for (const Index item : model_.units[at(rerun.unit)].items) {
    const std::span<const ItemEvent> events = walk.events(item);
    const auto made = std::partition_point(events.begin(), events.end(),
                                           [&](const ItemEvent& event) { return event.step < stage_begin; });
    if (made == events.end() || made == events.begin() || !made->made || made->step >= stage_end) continue;
    const bool used = std::next(made) != events.end() && !std::next(made)->made;
    if (!used) continue;
    const Bytes most = most_between(walk, std::prev(made)->step + 1, stage_begin);
    if (most + model_.contents.items[at(item)].bytes > capacity_) return false;
  }
  return true;
}

std::optional<std::vector<Rerun>> Candidates::with_inputs(const Schedule& schedule, const Walk& walk,
                                                          const Rerun& rerun) const {
  std::vector<Rerun> found{rerun};
  for (std::size_t next = 0; next < found.size(); ++next) {
    for (const Index item : model_.units[at(found[next].unit)].needs) {
      const Rerun other = way_back(schedule, item, rerun.stage);
      if (there(walk, item, rerun.stage) || may_stay(walk, item, rerun.stage)) continue;
      if (!model_.may_run_again(other.unit, other.stage) || schedule.contains(other)) continue;
      if (std::find(found.begin(), found.end(), other) != found.end()) continue;
      if (found.size() == kMostInputs) return std::nullopt;
      found.push_back(other);
    }
  }
  return found;
}

}  // namespace memplan
