#include "fit/live_schedule.hpp"

#include <algorithm>

namespace memplan {

LiveSchedule::LiveSchedule(const FitModel& model, Bytes capacity)
    : model_(model),
      capacity_(capacity),
      schedule_(model),
      steps_(at(model.op_count())),
      touched_(at(model.op_count())),
      touches_(model.contents.items.size()),
      alive_(at(model.op_count()) + 1, 0),
      above_(at(model.op_count()), 0),
      most_(at(model.op_count()), 0),
      price_(at(model.op_count()), 1),
      is_alive_(model.contents.items.size(), 0) {
  const Index count = model.op_count();
  for (Index k = 0; k < count; ++k) {
    steps_[at(k)] = {{k, k, false}};
    look_at(k);
    for (const Touched& t : touched_[at(k)]) touches_[at(t.item)].push_back({k, t.in});
  }
  for (std::size_t i = 0; i < touches_.size(); ++i) {
    const Content& item = model.contents.items[i];
    Index before = -1;
    for (const Touch& touch : touches_[i]) {
      if (touch.in)
        for (Index b = before + 1; b <= touch.stage; ++b) alive_[at(b)] += item.bytes;
      before = touch.stage;
    }
    if (item.kept)
      for (Index b = before + 1; b <= count; ++b) alive_[at(b)] += item.bytes;
  }
  for (Index k = 0; k < count; ++k) {
    measure(k);
    most_[at(k)] = alive_[at(k) + 1] + above_[at(k)];
  }
  over_ = over_of(0, count);
  for (const Bytes most : most_) stages_over_ += most > capacity_ ? 1 : 0;
}

const std::vector<Index>& LiveSchedule::makes(const FitStep& step) const {
  return step.op == kNone ? model_.units[at(step.unit)].items : model_.contents.makes[at(step.op)];
}

const std::vector<Index>& LiveSchedule::reads(const FitStep& step) const {
  return step.op == kNone ? model_.units[at(step.unit)].needs : model_.contents.uses[at(step.op)];
}

void LiveSchedule::look_at(Index stage) {
  std::vector<Touched>& touched = touched_[at(stage)];
  touched.clear();
  // Backwards, so that what was said last holds: the first event of an item in the stage.
  for (std::size_t s = steps_[at(stage)].size(); s-- > 0;) {
    const FitStep& step = steps_[at(stage)][s];
    for (const Index i : makes(step)) touched.push_back({i, step.again && model_.contents.items[at(i)].kept});
    for (const Index i : reads(step)) touched.push_back({i, true});
  }
  std::stable_sort(touched.begin(), touched.end(), [](const Touched& a, const Touched& b) { return a.item < b.item; });
  std::size_t kept = 0;
  for (std::size_t t = 0; t < touched.size(); ++t) {
    if (kept > 0 && touched[kept - 1].item == touched[t].item)
      touched[kept - 1] = touched[t];
    else
      touched[kept++] = touched[t];
  }
  touched.resize(kept);
  work_ += static_cast<std::int64_t>(4 * kept);
}

bool LiveSchedule::alive_before(Index item, Index stage) const {
  const std::vector<Touch>& all = touches_[at(item)];
  const auto next = std::partition_point(all.begin(), all.end(), [&](const Touch& t) { return t.stage < stage; });
  return next == all.end() ? model_.contents.items[at(item)].kept : next->in;
}

bool LiveSchedule::alive_after(Index item, Index stage) const { return alive_before(item, stage + 1); }

// The same as Walk::run for the steps of one stage, from what is alive after it.
void LiveSchedule::measure(Index stage) {
  const ContentsModel& contents = model_.contents;
  for (const Touched& t : touched_[at(stage)]) is_alive_[at(t.item)] = alive_after(t.item, stage);
  Bytes alive = 0, most = 0;
  bool any = false;
  const std::vector<FitStep>& steps = steps_[at(stage)];
  for (std::size_t s = steps.size(); s-- > 0;) {
    const bool again = steps[s].again;
    const Index op = steps[s].op;
    Bytes now = alive;
    const std::vector<Index>&made = makes(steps[s]), &read = reads(steps[s]);
    work_ += static_cast<std::int64_t>(made.size() + read.size() + 2);
    if (op == kNone) {
      for (const Index i : made) now += contents.items[at(i)].bytes;
    } else {
      now += contents.making[at(op)] - contents.written_over(op, [&](Index i) { return is_alive_[at(i)] == 0; });
    }
    for (const Index i : made)
      if (is_alive_[at(i)] != 0 && !(again && contents.items[at(i)].kept)) now -= contents.items[at(i)].bytes;
    for (const Index i : read)
      if (is_alive_[at(i)] == 0) now += contents.items[at(i)].bytes;
    most = any ? std::max(most, now) : now;
    any = true;
    for (const Index i : made) {
      if (is_alive_[at(i)] == 0 || (again && contents.items[at(i)].kept)) continue;
      is_alive_[at(i)] = 0;
      alive -= contents.items[at(i)].bytes;
    }
    for (const Index i : read) {
      if (is_alive_[at(i)] != 0) continue;
      is_alive_[at(i)] = 1;
      alive += contents.items[at(i)].bytes;
    }
  }
  above_[at(stage)] = most;
}

double LiveSchedule::over_of(Index begin, Index end) {
  double over = 0;
  for (Index k = begin; k < end; ++k)
    over += price_[at(k)] * static_cast<double>(std::max<Bytes>(most_[at(k)] - capacity_, 0));
  return over;
}

void LiveSchedule::set_prices(std::vector<double> prices) {
  price_ = std::move(prices);
  over_ = over_of(0, model_.op_count());
}

void LiveSchedule::change(Index item, Index stage, const Touched* before, const Touched* after) {
  std::vector<Touch>& all = touches_[at(item)];
  const auto place = std::partition_point(all.begin(), all.end(), [&](const Touch& t) { return t.stage < stage; });
  const auto next = before != nullptr ? std::next(place) : place;
  const bool later = next == all.end() ? model_.contents.items[at(item)].kept : next->in;
  const bool was = before != nullptr ? before->in : later, is = after != nullptr ? after->in : later;
  const Index previous = place == all.begin() ? kNone : std::prev(place)->stage;
  if (was != is) {
    const Bytes bytes = model_.contents.items[at(item)].bytes;
    changes_.push_back({previous == kNone ? 0 : previous + 1, stage + 1, is ? bytes : -bytes});
    if (previous != kNone) dirty_.push_back(previous);
  }
  if (before != nullptr && after != nullptr)
    place->in = after->in;
  else if (before != nullptr)
    all.erase(place);
  else
    all.insert(place, {stage, after->in});
}

void LiveSchedule::toggle(const Rerun& rerun) {
  const Index stage = rerun.stage;
  if (schedule_.contains(rerun))
    schedule_.remove(rerun);
  else
    schedule_.add(rerun);
  std::vector<Touched> old = touched_[at(stage)];
  steps_[at(stage)] = before_stage(model_, stage, schedule_.again(stage));
  steps_[at(stage)].push_back({stage, stage, false});
  look_at(stage);
  changes_.clear();
  dirty_.assign(1, stage);
  const std::vector<Touched>& now = touched_[at(stage)];
  for (std::size_t a = 0, b = 0; a < old.size() || b < now.size();) {
    if (b == now.size() || (a < old.size() && old[a].item < now[b].item)) {
      change(old[a].item, stage, &old[a], nullptr);
      ++a;
    } else if (a == old.size() || now[b].item < old[a].item) {
      change(now[b].item, stage, nullptr, &now[b]);
      ++b;
    } else {
      if (old[a].in != now[b].in) change(now[b].item, stage, &old[a], &now[b]);
      ++a, ++b;
    }
  }
  Index begin = stage, end = stage + 1;  // stages whose needs may change
  for (const Change& c : changes_) {
    begin = std::min(begin, std::max<Index>(c.begin - 1, 0));
    for (Index b = c.begin; b < c.end; ++b) alive_[at(b)] += c.bytes;
    work_ += (c.end - c.begin) / 4;
  }
  for (const Index k : dirty_) {
    measure(k);
    begin = std::min(begin, k);
  }
  over_ -= over_of(begin, end);
  for (Index k = begin; k < end; ++k) {
    stages_over_ -= most_[at(k)] > capacity_ ? 1 : 0;
    most_[at(k)] = alive_[at(k) + 1] + above_[at(k)];
    stages_over_ += most_[at(k)] > capacity_ ? 1 : 0;
  }
  work_ += (end - begin) / 2 + 10;
  over_ = stages_over_ == 0 ? 0 : over_ + over_of(begin, end);
}

bool LiveSchedule::is_useless(const Rerun& rerun) const {
  for (const Index item : model_.units[at(rerun.unit)].items) {
    if (alive_after(item, rerun.stage)) return false;
    bool made = false;
    for (const FitStep& step : steps_[at(rerun.stage)]) {
      if (step.unit == rerun.unit) {
        made = true;
        continue;
      }
      if (!made) continue;
      const std::vector<Index>& read = reads(step);
      if (std::find(read.begin(), read.end(), item) != read.end()) return false;
    }
  }
  return true;
}

}  // namespace memplan
