#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "caching/record.hpp"
#include "memplan/caching.hpp"

namespace memplan {

namespace {

// The blocks of a program in an allocator, by the program's numbers.
class ProgramBlocks {
 public:
  explicit ProgramBlocks(BegunReplay begun) : ProgramBlocks(std::move(begun.allocator), std::move(begun.held)) {}
  ProgramBlocks(CachingAllocator allocator, std::vector<Index> held)
      : allocator_(std::move(allocator)), held_(std::move(held)) {}

  // The allocator's block; kNone if memory ran out.
  Index allocate(Index block, Bytes size, Index pool, std::optional<Address> offered = std::nullopt) {
    const Index made = allocator_.allocate(size, pool, offered);
    for (const Index b : allocator_.completed()) held_[at(asked_.extract(b).mapped())] = kNone;
    allocator_.completed().clear();
    if (block != kNone) held_[at(block)] = made;
    return made;
  }
  void request_free(Index block) {
    if (!holds(block)) return;
    allocator_.request_free(held_[at(block)]);
    asked_[held_[at(block)]] = block;
  }
  void free(Index block) {
    if (!holds(block)) return;
    asked_.erase(held_[at(block)]);
    allocator_.free(std::exchange(held_[at(block)], kNone));
  }
  void empty_cache() {
    allocator_.empty_cache();
    for (const Index b : allocator_.completed()) held_[at(asked_.extract(b).mapped())] = kNone;
    allocator_.completed().clear();
  }
  bool holds(Index block) const { return block != kNone && held_[at(block)] != kNone; }
  Index operator[](Index block) const { return held_[at(block)]; }
  CachingAllocator& allocator() { return allocator_; }

 private:
  CachingAllocator allocator_;
  std::vector<Index> held_;                 // the allocator's block of each of the program's
  std::unordered_map<Index, Index> asked_;  // the program's block of each that it asked to free
};

// Goes through the events of a record with an allocator that is given what the driver gave, and compares.
class Replaying {
 public:
  Replaying(const UndoneRecord& start, const CachingSettings& settings)
      : start_(start), record_(start.record), held_(begin_as_recorded(start, settings)) {
    result_.before = static_cast<std::int64_t>(start_.before);
    result_.contradictions = start_.contradictions;
    result_.contradiction = start_.contradiction;
    for (std::size_t b = 0; b < start_.before; ++b)
      if (!held_.holds(static_cast<Index>(b)))
        contradict("the block at " + std::to_string(start_.blocks[b].address) +
                   " lies in no segment, or in another block");
    recorded_ = allocator().reserved();
    result_.reserved = result_.recorded_reserved = recorded_;
    result_.allocated = allocator().allocated();
  }

  void go(std::int64_t last) {
    const auto count = std::min(static_cast<std::int64_t>(record_.events.size()), last + 1);
    for (at_ = 0; at_ < count; ++at_) {
      step(record_.events[at(at_)]);
      allocator().changes().clear();
      const Bytes reserved = allocator().reserved(), allocated = allocator().allocated();
      result_.reserved = std::max(result_.reserved, reserved);
      result_.recorded_reserved = std::max(result_.recorded_reserved, recorded_);
      result_.allocated = std::max(result_.allocated, allocated);
      result_.reserved_after.push_back(reserved);
      result_.recorded_after.push_back(recorded_);
      result_.allocated_after.push_back(allocated);
    }
    if (offered_) part("the record has a segment of " + std::to_string(offered_->size) + " bytes more");
  }

  CachingReplay&& result() && { return std::move(result_); }
  CachingAllocator& allocator() { return held_.allocator(); }
  const ProgramBlocks& held() const { return held_; }
  const UndoneRecord& start() const { return start_; }

 private:
  void contradict(std::string what) {
    if (result_.contradictions++ == 0) result_.contradiction = std::move(what);
  }

  void part(std::string why) {
    if (result_.parts_at >= 0) return;
    result_.parts_at = at_;
    result_.parts_because = std::move(why);
  }

  void step(const CachingEvent& event) {
    const Index block = start_.block_of[at(at_)];
    switch (event.action) {
      case CachingAction::allocate: allocate(event, block); break;
      case CachingAction::request_free: held_.request_free(block); break;
      case CachingAction::complete_free: held_.free(block); break;
      case CachingAction::add_segment:
      case CachingAction::map_pages:
        ++result_.segments;
        recorded_ = saturated_add(recorded_, event.size);
        if (offered_) part("the record adds two segments for one block");
        offered_ = event;
        break;
      case CachingAction::drop_segment:
        ++result_.segments;
        recorded_ -= std::min(recorded_, event.size);
        if (allocator().drop(event.address)) {
          const CachingAllocator::Change& change = allocator().changes().back();
          result_.equal_segments += change.size == event.size;
        } else {
          part("the record gives back the segment at " + std::to_string(event.address) +
               ", in which the replay has blocks in use, or which it does not have");
        }
        break;
      case CachingAction::unmap_pages: {
        ++result_.segments;
        recorded_ -= std::min(recorded_, event.size);
        const CachingAllocator::Change change = allocator().unmap(event.address, event.size);
        if (change.address == event.address && change.size == event.size) {
          ++result_.equal_segments;
        } else {
          part("the record gives back " + std::to_string(event.size) + " bytes of pages at " +
               std::to_string(event.address) + ", the replay " + std::to_string(change.size) + " bytes");
        }
        break;
      }
      case CachingAction::run_out: break;
    }
  }

  void allocate(const CachingEvent& event, Index block) {
    ++result_.allocations;
    const auto offered = std::exchange(offered_, std::nullopt);
    const auto begin = offered ? std::optional(offered->address) : std::nullopt;
    const Index made = held_.allocate(block, event.size, event.pool, begin);
    if (made == kNone) return part("memory runs out in the replay");
    const Address address = allocator().address(made);
    result_.equal_addresses += address == event.address;
    bool added = false;
    for (const CachingAllocator::Change& change : allocator().changes()) {
      if (change.action != CachingAction::add_segment && change.action != CachingAction::map_pages) continue;
      added = true;
      if (!offered) {
        part("the replay needs a new segment of " + std::to_string(change.size) + " bytes, the record does not");
      } else if (change.size == offered->size && change.address == offered->address) {
        ++result_.equal_segments;
      } else {
        part("the record adds " + std::to_string(offered->size) + " bytes at " + std::to_string(offered->address) +
             ", the replay " + std::to_string(change.size) + " at " + std::to_string(change.address));
      }
    }
    if (offered && !added)
      part("the record adds a segment of " + std::to_string(offered->size) + " bytes, the replay has a free block of " +
           std::to_string(allocator().size(made)));
    if (address != event.address)
      part("a block of " + std::to_string(event.size) + " bytes lies at " + std::to_string(event.address) +
           " in the record, at " + std::to_string(address) + " in the replay");
  }

  const UndoneRecord& start_;
  const CachingRecord& record_;
  ProgramBlocks held_;
  CachingReplay result_;
  std::optional<CachingEvent> offered_;
  Bytes recorded_ = 0;
  std::int64_t at_ = 0;
};

// Runs the requests of a record again, with segments of its own.
class Running {
 public:
  Running(const UndoneRecord& start, const CachingSettings& settings)
      : start_(start),
        record_(start.record),
        held_(CachingAllocator(settings, record_.pools), std::vector<Index>(start_.blocks.size(), kNone)) {
    gives_back();
    if (settings.preallocated > 0 && !record_.pools.empty()) {
      const Index first = held_.allocate(kNone, settings.preallocated, 0);
      if (first != kNone) allocator().free(first);
    }
    for (std::size_t b = 0; b < start_.before; ++b) place(static_cast<Index>(b), start_.blocks[b].requested);
    note();
  }

  void go(std::int64_t last) {
    const auto count = std::min(static_cast<std::int64_t>(record_.events.size()), last + 1);
    for (at_ = 0; at_ < count; ++at_) {
      step(record_.events[at(at_)]);
      note();
      result_.reserved_after.push_back(allocator().reserved());
      result_.allocated_after.push_back(allocator().allocated());
    }
    result_.retries = allocator().retries();
  }

  CachingRun&& result() && { return std::move(result_); }
  CachingAllocator& allocator() { return held_.allocator(); }
  const ProgramBlocks& held() const { return held_; }
  const UndoneRecord& start() const { return start_; }

 private:
  void note() {
    allocator().changes().clear();
    result_.allocated = std::max(result_.allocated, allocator().allocated());
    if (allocator().reserved() <= result_.reserved) return;
    result_.reserved = allocator().reserved();
    result_.peak_at = at_;
  }

  void run_out() {
    if (result_.ran_out_at < 0) result_.ran_out_at = std::max<std::int64_t>(at_, 0);
  }

  void place(Index block, Bytes size) {
    if (held_.allocate(block, size, start_.blocks[at(block)].pool) == kNone) run_out();
  }

  void step(const CachingEvent& event) {
    const Index block = start_.block_of[at(at_)];
    if (gives_back_[at(at_)]) held_.empty_cache();
    switch (event.action) {
      case CachingAction::allocate: place(block, event.size); break;
      case CachingAction::request_free: held_.request_free(block); break;
      case CachingAction::complete_free:
        held_.free(block);  // which may be free already, if memory ran out before
        break;
      case CachingAction::run_out: {
        const Index tried = held_.allocate(kNone, event.size, event.pool);
        if (tried == kNone) run_out();
        note();
        if (tried != kNone) allocator().free(tried);
        break;
      }
      default: break;
    }
  }

  // Segments that go back to the device either make room for a block, when memory has run out, or the program asked for
  // it. Memory had not run out if as much was reserved at another time.
  void gives_back() {
    const std::vector<CachingEvent>& events = record_.events;
    gives_back_.assign(events.size(), false);
    Bytes before = 0;
    for (const CachingSegment& segment : start_.segments) before = saturated_add(before, segment.size);
    std::vector<Bytes> reserved{before};
    for (const CachingEvent& event : events) {
      const Bytes held = reserved.back();
      reserved.push_back(adds(event)    ? saturated_add(held, event.size)
                         : drops(event) ? std::max<Bytes>(held - event.size, 0)
                                        : held);
    }
    const Bytes most = *std::max_element(reserved.begin(), reserved.end());
    for (std::size_t i = 0; i < events.size();) {
      if (!drops(events[i])) {
        ++i;
        continue;
      }
      std::size_t end = i;
      while (end < events.size() && drops(events[end])) ++end;
      const bool for_a_block =
          end < events.size() && (adds(events[end]) || events[end].action == CachingAction::run_out);
      gives_back_[i] = !for_a_block || saturated_add(reserved[i], events[end].size) <= most;
      i = end;
    }
  }

  static bool adds(const CachingEvent& event) {
    return event.action == CachingAction::add_segment || event.action == CachingAction::map_pages;
  }
  static bool drops(const CachingEvent& event) {
    return event.action == CachingAction::drop_segment || event.action == CachingAction::unmap_pages;
  }

  const UndoneRecord& start_;
  const CachingRecord& record_;
  ProgramBlocks held_;
  std::vector<char> gives_back_;
  CachingRun result_;
  std::int64_t at_ = -1;
};

template <class Run>
CachingState state_of(Run& run) {
  // Whose block it is: the event that allocated it
  std::vector<std::int64_t> born(run.start().blocks.size());
  for (std::size_t b = 0; b < born.size(); ++b) born[b] = -1 - static_cast<std::int64_t>(b);
  const std::vector<CachingEvent>& events = run.start().record.events;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (events[i].action == CachingAction::allocate) born[at(run.start().block_of[i])] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> owner;
  for (std::size_t b = 0; b < born.size(); ++b) {
    if (!run.held().holds(static_cast<Index>(b))) continue;
    const Index held = run.held()[static_cast<Index>(b)];
    if (owner.size() <= at(held)) owner.resize(at(held) + 1, -1);
    owner[at(held)] = born[b];
  }
  CachingState state;
  for (const CachingAllocator::Run& piece : run.allocator().runs()) {
    for (const Index b : piece.blocks) {
      const bool used = run.allocator().used(b);
      state.segment.push_back(static_cast<Index>(state.segments.size()));
      state.address.push_back(run.allocator().address(b));
      state.size.push_back(run.allocator().size(b));
      state.used.push_back(used);
      state.event.push_back(used && at(b) < owner.size() ? owner[at(b)] : -1);
    }
    state.segments.push_back(piece.segment);
  }
  return state;
}

}  // namespace

CachingTrace::CachingTrace(CachingRecord record, Bytes large_segment)
    : undone_(std::make_shared<const UndoneRecord>(undone(std::move(record), large_segment))) {}

CachingReplay CachingTrace::replay(const CachingSettings& settings) const {
  Replaying replaying(*undone_, settings);
  replaying.go(static_cast<std::int64_t>(undone_->record.events.size()));
  return std::move(replaying).result();
}

CachingRun CachingTrace::reserve(const CachingSettings& settings) const {
  Running running(*undone_, settings);
  running.go(static_cast<std::int64_t>(undone_->record.events.size()));
  return std::move(running).result();
}

CachingState CachingTrace::state_after(const CachingSettings& settings, std::int64_t event, bool as_recorded) const {
  if (as_recorded) {
    Replaying replaying(*undone_, settings);
    replaying.go(event);
    return state_of(replaying);
  }
  Running running(*undone_, settings);
  running.go(event);
  return state_of(running);
}

}  // namespace memplan
