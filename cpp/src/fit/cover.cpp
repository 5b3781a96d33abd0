#include "fit/cover.hpp"

#include <algorithm>
#include <map>

#include "fit/schedule.hpp"

namespace memplan {

namespace {

// What an op may write over at most: over inputs that nothing uses later in the given order, and, per item that
// something does use, over that one if it is away right after the op.
struct WrittenOver {
  Bytes dead = 0;
  std::map<Index, Bytes> of_item;
};

WrittenOver most_written_over(const FitModel& model, Index op) {
  WrittenOver found;
  for (const Over& over : model.contents.overs[at(op)]) {
    Bytes dying = 0;
    for (const Index i : over.items) {
      const Content& item = model.contents.items[at(i)];
      const bool lives_on = item.kept || (!item.users.empty() && item.users.back() > op);
      if (lives_on)
        found.of_item[i] += std::min(over.bytes, item.bytes);
      else
        dying += item.bytes;
    }
    found.dead += std::min(over.bytes, dying);
  }
  return found;
}

// An item between two uses of it; begin > end if it cannot come back between them.
Pause pause_of(const FitModel& model, Index item, Index before, Index use) {
  Pause pause;
  pause.item = item;
  pause.bytes = model.contents.items[at(item)].bytes;
  pause.first = before + 1;
  pause.begin = use + 1;
  pause.end = before;
  const auto may_come_back = [&](Index u) {
    if (u == kNone) return false;
    const Index begin = std::max(before + 1, model.units[at(u)].from), end = std::min(use, model.units[at(u)].until);
    if (begin > end) return false;
    pause.begin = std::min(pause.begin, begin);
    pause.end = std::max(pause.end, end);
    return true;
  };
  if (may_come_back(model.unit_of_item[at(item)])) pause.unit = model.unit_of_item[at(item)];
  if (may_come_back(model.fetch_of_item[at(item)])) pause.fetch = model.fetch_of_item[at(item)];
  pause.last = pause.end;
  return pause;
}

}  // namespace

Cover::Cover(const FitModel& model, Bytes capacity) : capacity_(capacity) {
  Walk walk(model);
  walk.run(Schedule(model));
  std::vector<std::map<Index, Bytes>> over;
  for (Index k = 0; k < model.op_count(); ++k) {
    WrittenOver most = most_written_over(model, k);
    too_much.push_back(walk.need[at(k)] + walk.saved[at(k)] - most.dead - capacity);
    over.push_back(std::move(most.of_item));
  }
  for (const std::vector<Index>& made : model.contents.makes) {
    for (const Index i : made) {
      Index before = model.contents.items[at(i)].maker;
      for (const Index use : model.uses[at(i)]) {
        Pause pause = pause_of(model, i, before, use);
        if (const auto found = over[at(before)].find(i); found != over[at(before)].end())
          pause.written_over = found->second;
        const bool stays = model.is_kept(i, before + 1);
        before = use;
        if (!stays && pause.begin <= pause.end && (pause.first < pause.last || pause.written_over > 0))
          pauses.push_back(pause);
      }
    }
  }
}

Floor Cover::floor() const {
  std::vector<Bytes> change(too_much.size() + 1, 0);
  for (const Pause& pause : pauses) {
    change[at(pause.first) - 1] += pause.written_over;
    change[at(pause.first)] -= pause.written_over;
    change[at(pause.first)] += pause.bytes;
    change[at(pause.last)] -= pause.bytes;
  }
  Floor floor;
  Bytes freed = 0;
  for (std::size_t k = 0; k < too_much.size(); ++k) {
    freed += change[k];
    const Bytes bytes = too_much[k] + capacity_ - freed;
    if (bytes > floor.bytes) floor = {bytes, static_cast<Index>(k)};
  }
  return floor;
}

}  // namespace memplan
