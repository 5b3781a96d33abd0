#include "search/valley/valley_search.hpp"

#include <algorithm>
#include <cmath>

namespace memplan {

namespace {

constexpr std::size_t kTicksPerNode = 64;

}  // namespace

ValleySearch::ValleySearch(const Sections& sections, std::uint64_t seed, const Deadline& deadline, Inferences use)
    : sections_(sections),
      use_(use),
      seed_(seed),
      floors_(sections, deadline),
      valleys_(sections, floors_),
      refuted_floors_(sections.count),
      chance_(seed),
      deaths_(static_cast<std::size_t>(sections.count), 0) {}

Decision ValleySearch::run(Bytes capacity, std::int64_t number, const RunLimits& limits) {
  deadline_ = &limits.deadline;
  if (!start(capacity, number)) return Decision::infeasible;
  std::int64_t left = limits.steps;
  Step step = begin_ < end_ ? Step::enter : Step::solved;
  while (true) {
    switch (step) {
      case Step::enter:
        if (left-- <= 0 || work() >= limits.work) return Decision::undecided;
        deadline_->tick(kTicksPerNode);
        step = enter();
        break;
      case Step::next_child: step = next_child(); break;
      case Step::failed:
        if (frames_.empty()) return forgot_ ? Decision::undecided : Decision::infeasible;
        step = failed();
        break;
      case Step::solved:
        while (!frames_.empty() && !frames_.back().parts) {  // what is left there need not be tried
          children_.resize(frames_.back().first);
          frames_.pop_back();
        }
        if (frames_.empty()) return Decision::found;
        step = solved();
        break;
    }
  }
}

// Nothing is placed; false when the load exceeds the capacity.
bool ValleySearch::start(Bytes capacity, std::int64_t number) {
  capacity_ = capacity;
  vary_ = use_.vary && number > 0;
  chance_ = Chance(seed_ + static_cast<std::uint64_t>(number) * 0x632be59bd9b4e019ull);
  forgot_ = false;
  placed_.clear();
  frames_.clear();
  children_.clear();
  parts_.clear();
  begin_ = 0;
  end_ = sections_.count;
  const Index n = sections_.items();
  offset_.assign(static_cast<std::size_t>(n), 0);
  rank_.resize(static_cast<std::size_t>(n));
  state_ = outside_ = {};
  for (Index x = 0; x < n; ++x) {
    const double length = sections_.last[x] - sections_.first[x];
    const auto size = static_cast<double>(sections_.size[x]);
    const double ranks[] = {length * size, length, size, length * std::sqrt(size)};
    rank_[x] = ranks[use_.vary ? number % 4 : 0];
  }
  deadline_->tick(at(n));
  const bool fits = floors_.reset(capacity);
  for (Index x = 0; x < n; ++x) state_ += StatePrint::of(sections_.twin[x], floors_.base(x));
  deadline_->tick(at(n));
  valleys_.reset();
  return fits;
}

ValleySearch::Step ValleySearch::enter() {
  StatePrint state = state_;
  state -= outside_;
  if (use_.refute && is_refuted(state)) return Step::failed;
  ++nodes_;
  const Valley* valley = valleys_.most_constrained(begin_, end_, [&](Index s) { return noise() * weight(s); });
  const std::size_t first = children_.size();
  const Index section = valley->section;
  list_children(*valley);
  if (children_.size() > first + 1) probe_children(first, section);
  if (children_.size() == first) {
    if (use_.refute) refute(state, 1);
    return Step::failed;
  }
  if (children_.size() == first + 1) {  // nothing to come back to
    const Child child = children_.back();
    children_.pop_back();
    return apply(child, section);
  }
  frames_.push_back({false, begin_, end_, section, first, first, here(), state, nodes_});
  if (frames_.size() > kMostFrames) forget();
  return Step::next_child;
}

bool ValleySearch::is_refuted(const StatePrint& state) const {
  if (refutations_.contains(state.state, capacity_)) return true;
  return end_ - begin_ <= RefutedFloors::kMostSections &&
         refuted_floors_.contains(state.items, capacity_, floors_.floors(begin_, end_));
}

// The state of this part, as it is now, after so many nodes.
void ValleySearch::refute(const StatePrint& state, std::int64_t nodes) {
  refutations_.add(state.state, capacity_);
  if (nodes >= RefutedFloors::kLeastNodes && end_ - begin_ <= RefutedFloors::kMostSections)
    refuted_floors_.add(state.items, capacity_, floors_.floors(begin_, end_));
}

// Gives up the older half of what is left to try, and with it the hope of a proof.
void ValleySearch::forget() {
  forgot_ = true;
  const auto recent = frames_.begin() + static_cast<std::ptrdiff_t>(kMostFrames / 2);
  const auto oldest = std::find_if(recent, frames_.end(), [](const Frame& frame) { return !frame.parts; });
  const std::size_t children = oldest->first;
  floors_.forget(oldest->place.floors);
  children_.erase(children_.begin(), children_.begin() + static_cast<std::ptrdiff_t>(children));
  for (auto frame = oldest; frame != frames_.end(); ++frame) {
    if (frame->parts) continue;
    frame->first -= children;
    frame->next -= children;
  }
  frames_.erase(std::remove_if(frames_.begin(), recent, [](const Frame& frame) { return !frame.parts; }), recent);
}

void ValleySearch::list_children(const Valley& valley) {
  const Index t = valley.section;
  const Bytes floor = floors_.floor(t);
  Bytes height = kMaxBytes;    // the least at which the lowest item at t may lie, when none lies on the floor
  Index from = t, to = t + 1;  // where those that might lie on the floor go
  Index twin = kNone;          // identical items are neighbours
  deadline_->tick(at(sections_.begins[t + 1] - sections_.begins[valley.begin]));
  for (Index x = sections_.begins[valley.begin]; x < sections_.begins[t + 1]; ++x) {
    if (floors_.is_placed(x) || sections_.last[x] <= t) continue;
    if (floors_.base(x) > floor) {
      height = std::min(height, floors_.base(x));
      continue;
    }
    from = std::min(from, sections_.first[x]);
    to = std::max(to, sections_.last[x]);
    if (!use_.twins || sections_.twin[x] != twin) children_.push_back({x, 0, 0});
    twin = sections_.twin[x];
  }
  if (valley.begin > begin_ && valleys_.joined(valley.begin))
    height = std::min(height, floors_.floor(valley.begin - 1));
  const auto rest_on = [&](Index x) {
    if (!floors_.is_placed(x)) height = std::min(height, floors_.base(x) + sections_.size[x]);
  };
  deadline_->tick(at(sections_.begins[to] - sections_.begins[valley.begin]));
  for (Index x = sections_.begins[valley.begin]; x < sections_.begins[t]; ++x)
    if (sections_.last[x] > from && sections_.last[x] <= t) rest_on(x);
  for (Index x = sections_.begins[t + 1]; x < sections_.begins[to]; ++x) rest_on(x);
  if (height != kMaxBytes && height - floor <= valley.slack) children_.push_back({kNone, height, 0});
}

// Drops the children that are dead at once, and sorts the others.
void ValleySearch::probe_children(std::size_t first, Index section) {
  if (use_.probe) {
    const Floors::Mark mark = floors_.mark();
    std::size_t kept = first;
    for (std::size_t k = first; k < children_.size(); ++k) {
      Child child = children_[k];
      const std::int64_t before = work();
      const bool alive = attempt(child, section);
      deadline_->tick(1 + at(work() - before));
      child.order = use_.waste ? floors_.waste() * noise() : 0;
      floors_.undo(mark);
      if (alive) children_[kept++] = child;
    }
    children_.resize(kept);
  }
  std::sort(children_.begin() + static_cast<std::ptrdiff_t>(first), children_.end(),
            [&](const Child& a, const Child& b) { return sooner(a, b); });
}

bool ValleySearch::sooner(const Child& a, const Child& b) const {
  if (a.item == kNone || b.item == kNone) return a.item != kNone;  // nothing at the floor: last
  if (a.order != b.order) return a.order < b.order;
  return rank_[a.item] != rank_[b.item] ? rank_[a.item] > rank_[b.item] : a.item < b.item;
}

ValleySearch::Step ValleySearch::next_child() {
  Frame& frame = frames_.back();
  back_to(frame.place);
  if (frame.next == children_.size()) {
    begin_ = frame.begin;
    end_ = frame.end;
    if (use_.refute) refute(frame.state, nodes_ - frame.nodes);
    children_.resize(frame.first);
    frames_.pop_back();
    return Step::failed;
  }
  begin_ = frame.begin;
  end_ = frame.end;
  const Child child = children_[frame.next++];
  return apply(child, frame.section);
}

void ValleySearch::back_to(const Place& place) {
  floors_.undo(place.floors);
  valleys_.touch(floors_.changed_from(), floors_.changed_to());
  for (; placed_.size() > place.items; placed_.pop_back()) valleys_.remove(placed_.back());
  state_ = place.state;
  outside_ = place.outside;
}

ValleySearch::Step ValleySearch::apply(const Child& child, Index section) {
  const Floors::Mark mark = floors_.mark();
  const Bytes height = height_of(child);
  if (child.item != kNone) offset_[child.item] = height;
  const bool alive = attempt(child, section);
  valleys_.touch(floors_.changed_from(), floors_.changed_to());
  if (!alive) return Step::failed;
  for (const Floors::ItemChange& change : floors_.items_since(mark)) {  // each at most once
    const Index twin = sections_.twin[change.item];
    if (floors_.is_placed(change.item)) {
      state_ -= StatePrint::of(twin, change.base);
    } else {
      state_.state -= Fingerprint::of(twin, change.base);
      state_.state += Fingerprint::of(twin, floors_.base(change.item));
    }
  }
  if (child.item == kNone) return Step::enter;
  valleys_.add(child.item);
  placed_.push_back(child.item);
  return split(child.item);
}

// What is still to come of this part may fall apart in the item's life, now that it is placed.
ValleySearch::Step ValleySearch::split(Index item) {
  deadline_->tick(at(sections_.last[item] - sections_.first[item]));
  const std::size_t first = parts_.size();
  const auto empty = [&](Index s) { return floors_.floor(s) == Floors::kPlaced; };
  const auto add = [&](Index begin, Index end) {
    while (begin < end && empty(begin)) ++begin;
    while (begin < end && empty(end - 1)) --end;
    if (begin < end) parts_.push_back({begin, end, {}});
  };
  Index begin = begin_;
  for (Index s = sections_.first[item]; s <= sections_.last[item]; ++s) {
    if (s <= begin || s >= end_ || valleys_.joined(s)) continue;
    if (!use_.split && !empty(s - 1) && !empty(s)) continue;
    add(begin, s);
    begin = s;
  }
  add(begin, end_);
  if (!use_.split && parts_.size() > first) {
    parts_[first].end = parts_.back().end;
    parts_.resize(first + 1);
  }
  if (parts_.size() == first) return Step::solved;
  if (parts_.size() > first + 1) {
    std::stable_sort(parts_.begin() + static_cast<std::ptrdiff_t>(first), parts_.end(),
                     [](const Part& a, const Part& b) { return a.end - a.begin > b.end - b.begin; });
    // The largest is what is left of the whole.
    for (std::size_t k = first + 1; k < parts_.size(); ++k)
      for (Index x = sections_.begins[parts_[k].begin]; x < sections_.begins[parts_[k].end]; ++x)
        if (!floors_.is_placed(x)) parts_[k].state += StatePrint::of(sections_.twin[x], floors_.base(x));
    parts_[first].state = state_;
    parts_[first].state -= outside_;
    for (std::size_t k = first + 1; k < parts_.size(); ++k) parts_[first].state -= parts_[k].state;
    frames_.push_back({true, 0, 0, kNone, first, 0, here(), {}, 0});
    for (std::size_t k = first; k + 1 < parts_.size(); ++k) outside_ += parts_[k].state;
  }
  begin_ = parts_.back().begin;
  end_ = parts_.back().end;
  parts_.pop_back();
  return Step::enter;
}

ValleySearch::Step ValleySearch::failed() {
  if (!frames_.back().parts) return Step::next_child;
  parts_.resize(frames_.back().first);
  frames_.pop_back();
  return Step::failed;
}

// A part is done: on to the next one.
ValleySearch::Step ValleySearch::solved() {
  begin_ = parts_.back().begin;
  end_ = parts_.back().end;
  outside_ -= parts_.back().state;
  parts_.pop_back();
  if (parts_.size() == frames_.back().first) frames_.pop_back();  // it was the last one
  return Step::enter;
}

}  // namespace memplan
