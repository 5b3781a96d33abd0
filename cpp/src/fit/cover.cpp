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
Gap gap_of(const FitModel& model, Index item, Index before, Index use) {
  Gap gap;
  gap.item = item;
  gap.bytes = model.contents.items[at(item)].bytes;
  gap.first = before + 1;
  gap.begin = use + 1;
  gap.end = before;
  const auto may_come_back = [&](Index u) {
    if (u == kNone) return false;
    const Index begin = std::max(before + 1, model.units[at(u)].from), end = std::min(use, model.units[at(u)].until);
    if (begin > end) return false;
    gap.begin = std::min(gap.begin, begin);
    gap.end = std::max(gap.end, end);
    return true;
  };
  if (may_come_back(model.unit_of_item[at(item)])) gap.unit = model.unit_of_item[at(item)];
  if (may_come_back(model.fetch_of_item[at(item)])) gap.fetch = model.fetch_of_item[at(item)];
  gap.last = gap.end;
  return gap;
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
        Gap gap = gap_of(model, i, before, use);
        if (const auto found = over[at(before)].find(i); found != over[at(before)].end())
          gap.written_over = found->second;
        const bool stays = model.is_kept(i, before + 1);
        before = use;
        if (!stays && gap.begin <= gap.end && (gap.first < gap.last || gap.written_over > 0)) gaps.push_back(gap);
      }
    }
  }
}

Floor Cover::floor() const {
  std::vector<Bytes> change(too_much.size() + 1, 0);
  for (const Gap& gap : gaps) {
    change[at(gap.first) - 1] += gap.written_over;
    change[at(gap.first)] -= gap.written_over;
    change[at(gap.first)] += gap.bytes;
    change[at(gap.last)] -= gap.bytes;
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
