// What an allocator does with the steps of a program: one is recorded, later ones are served from an arena. An
// allocator includes this in one file, and asks for each allocation and each free:
//
//   void* allocate(size) { if (void* p = session().take(size)) return p;
//                          void* p = <memory from elsewhere>; session().born(p, size, tag); return p; }
//   void free(void* p)   { const Given given = session().give(p);
//                          if (!given.in_arena) <give it back to where it came from, which given.tag says>; }
//
// exports.hpp has what Python calls, which is the same for all allocators. Safe across threads.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "arena.hpp"

namespace memplan::run {

// The births and deaths of a step, in program order: each is a tick.
struct Recording {
  std::vector<Bytes> size;
  std::vector<std::int64_t> birth, death, thread;  // death -1: alive at the end of the recording
  std::vector<Thread> threads;
  std::int64_t ticks = 0;

  std::int64_t born(Thread by, Bytes bytes) {
    const auto found = std::find(threads.begin(), threads.end(), by);
    thread.push_back(found - threads.begin());
    if (found == threads.end()) threads.push_back(by);
    size.push_back(bytes);
    birth.push_back(ticks++);
    death.push_back(-1);
    return static_cast<std::int64_t>(size.size()) - 1;
  }
};

struct Given {
  bool in_arena = false;
  std::uint64_t tag = 0;  // what `born` was told of memory from elsewhere; 0 for what it was told nothing of
};

class Session {
 public:
  using Callback = void (*)(std::int64_t number);  // an allocation that was recorded, or -1: the first divergence

  // The address in the arena, or nullptr: take the memory from elsewhere, and say so by `born`.
  void* take(std::size_t size) {
    Callback tell = nullptr;
    Address address = 0;
    {
      const std::lock_guard guard(lock_);
      if (active_ == nullptr || size == 0) return nullptr;
      Arena& arena = active_->arena;
      const bool new_before = arena.divergence().reason == Reason::none;
      address = arena.take(here(), static_cast<Bytes>(size));
      if (new_before && arena.divergence().reason != Reason::none) tell = callback_;
    }
    if (tell != nullptr) tell(-1);
    return reinterpret_cast<void*>(address);
  }

  // Memory from elsewhere. It is counted and recorded while it lives; false if no step is recorded or served.
  bool born(void* pointer, std::size_t size, std::uint64_t tag = 0) {
    Callback tell = nullptr;
    Elsewhere entry{static_cast<Bytes>(size), tag, -1, -1};
    {
      const std::lock_guard guard(lock_);
      if (recording_ == nullptr && active_ == nullptr) return false;
      if (recording_ != nullptr) {
        entry.recording = recordings_;
        entry.number = recording_->born(here(), entry.size);
        tell = callback_;
      }
      outside_ += entry.size;
      if (active_ != nullptr) active_->outside_peak = std::max(active_->outside_peak, outside_);
      elsewhere_[pointer] = entry;
    }
    if (tell != nullptr) tell(entry.number);
    return true;
  }

  Given give(void* pointer) {
    const std::lock_guard guard(lock_);
    for (auto& [id, held] : arenas_) {
      if (!held->arena.owns(reinterpret_cast<Address>(pointer))) continue;
      held->arena.give(reinterpret_cast<Address>(pointer));
      if (held->released && held->arena.live() == 0) drop(id);
      return {true, 0};
    }
    const auto found = elsewhere_.find(pointer);
    if (found == elsewhere_.end()) return {};
    const Elsewhere entry = found->second;
    elsewhere_.erase(found);
    outside_ -= entry.size;
    if (recording_ != nullptr && entry.recording == recordings_) {
      recording_->death[static_cast<std::size_t>(entry.number)] = recording_->ticks++;
    }
    return {false, entry.tag};
  }

  void record(Callback tell) {
    const std::lock_guard guard(lock_);
    recording_ = std::make_unique<Recording>();
    recording_->threads.push_back(here());
    ++recordings_;
    callback_ = tell;
  }

  std::int64_t ticks() {
    const std::lock_guard guard(lock_);
    return recording_ == nullptr ? 0 : recording_->ticks;
  }

  Recording recorded() {
    const std::lock_guard guard(lock_);
    Recording made = recording_ == nullptr ? Recording{} : std::move(*recording_);
    recording_.reset();
    callback_ = nullptr;
    return made;
  }

  // `free_memory` is called when the arena was released, and nothing in it is alive.
  std::int64_t add(Arena arena, std::function<void()> free_memory) {
    const std::lock_guard guard(lock_);
    arenas_.emplace(++last_id_, std::make_unique<Held>(Held{std::move(arena), std::move(free_memory)}));
    return last_id_;
  }

  void release(std::int64_t id) {
    const std::lock_guard guard(lock_);
    Held* held = find(id);
    if (held == nullptr) return;
    if (active_ == held) active_ = nullptr;
    held->released = true;
    if (held->arena.live() == 0) drop(id);
  }

  void begin(std::int64_t id, int track, Callback tell) {
    const std::lock_guard guard(lock_);
    active_ = find(id);
    active_->arena.begin(here(), track);
    active_->outside_peak = std::max(active_->outside_peak, outside_);
    callback_ = tell;
  }

  void end() {
    const std::lock_guard guard(lock_);
    active_ = nullptr;
    callback_ = nullptr;
  }

  struct Report {
    Counts counts;
    Divergence divergence;
    Bytes live, outside, outside_peak;
  };

  Report report(std::int64_t id) {
    const std::lock_guard guard(lock_);
    const Held* held = find(id);
    const Arena& arena = held->arena;
    return {arena.counts(), arena.divergence(), static_cast<Bytes>(arena.live()), outside_, held->outside_peak};
  }

  std::size_t arenas() {
    const std::lock_guard guard(lock_);
    return arenas_.size();
  }

  std::mutex& lock() { return lock_; }  // for a fork, in which no thread may hold it

 private:
  struct Elsewhere {
    Bytes size;
    std::uint64_t tag;
    std::int64_t recording, number;
  };
  struct Held {
    Arena arena;
    std::function<void()> free_memory;
    bool released = false;
    Bytes outside_peak = 0;
  };

  // A number that no other thread has at the same time.
  static Thread here() {
    static thread_local char mark;
    return reinterpret_cast<Thread>(&mark);
  }

  Held* find(std::int64_t id) {
    const auto found = arenas_.find(id);
    return found == arenas_.end() ? nullptr : found->second.get();
  }

  void drop(std::int64_t id) {
    arenas_[id]->free_memory();
    arenas_.erase(id);
  }

  std::mutex lock_;
  std::map<std::int64_t, std::unique_ptr<Held>> arenas_;
  Held* active_ = nullptr;
  std::unordered_map<void*, Elsewhere> elsewhere_;
  std::unique_ptr<Recording> recording_;
  std::int64_t recordings_ = 0, last_id_ = 0;
  Bytes outside_ = 0;  // bytes alive from elsewhere, of those that were born in steps
  Callback callback_ = nullptr;
};

// Never destroyed: tensors are freed after all else.
inline Session& session() {
  static Session& only = *new Session;
  return only;
}

}  // namespace memplan::run
