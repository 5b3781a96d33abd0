// What Python calls, the same for all allocators: plain C functions. A function that can fail says why by
// memplan_error. An allocator includes this in one file, and defines the two functions below.
#pragma once

#include <exception>
#include <string>

#include "held.hpp"
#include "session.hpp"

#if defined(_WIN32)
#define MEMPLAN_EXPORT extern "C" __declspec(dllexport)
#else
#define MEMPLAN_EXPORT extern "C" __attribute__((visibility("default")))
#endif

namespace memplan::run {

void* take_arena(std::size_t bytes);  // memory of the device; throws if there is none
void give_arena(void* memory, std::size_t bytes);

inline std::string& last_error() {
  static thread_local std::string text;
  return text;
}

inline Recording& last_recording() {
  static Recording only;
  return only;
}

// Slots in the order of their numbers -> a track.
inline Track track_of(std::int64_t count, const Bytes* size, const Bytes* offset, const std::int64_t* thread,
                      const std::int64_t* until) {
  Track track;
  for (std::int64_t i = 0; i < count; ++i) track.add(static_cast<std::size_t>(thread[i]), size[i], offset[i], until[i]);
  return track;
}

inline std::int64_t new_arena(Bytes bytes, Bytes alignment, std::vector<Track> tracks) {
  const auto room = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  void* memory = take_arena(room);
  try {
    Arena arena(reinterpret_cast<Address>(memory), bytes, alignment, std::move(tracks));
    return session().add(std::move(arena), [memory, room] { give_arena(memory, room); });
  } catch (...) {
    give_arena(memory, room);
    throw;
  }
}

}  // namespace memplan::run

// The last error of this thread, of a function that failed.
MEMPLAN_EXPORT const char* memplan_error() { return memplan::run::last_error().c_str(); }

// Begin to record. `tell` is called with the number of each allocation, or is null.
MEMPLAN_EXPORT void memplan_record(void (*tell)(std::int64_t)) { memplan::run::session().record(tell); }

// The births and deaths so far.
MEMPLAN_EXPORT std::int64_t memplan_ticks() { return memplan::run::session().ticks(); }

// End to record; the number of allocations.
MEMPLAN_EXPORT std::int64_t memplan_recorded() {
  auto& recording = memplan::run::last_recording() = memplan::run::session().recorded();
  return static_cast<std::int64_t>(recording.size.size());
}

// Copy the columns of what was recorded, and return its ticks.
MEMPLAN_EXPORT std::int64_t memplan_recording(std::int64_t* size, std::int64_t* birth, std::int64_t* death,
                                              std::int64_t* thread) {
  const auto& recording = memplan::run::last_recording();
  std::copy(recording.size.begin(), recording.size.end(), size);
  std::copy(recording.birth.begin(), recording.birth.end(), birth);
  std::copy(recording.death.begin(), recording.death.end(), death);
  std::copy(recording.thread.begin(), recording.thread.end(), thread);
  return recording.ticks;
}

// An arena for `tracks` recorded steps, whose slots follow one another in the columns; its handle. 0 if a slot
// lies outside, -1 if there is no memory.
MEMPLAN_EXPORT std::int64_t memplan_arena(std::int64_t bytes, std::int64_t alignment, std::int64_t tracks,
                                          const std::int64_t* lengths, const std::int64_t* size,
                                          const std::int64_t* offset, const std::int64_t* thread,
                                          const std::int64_t* until) {
  using namespace memplan::run;
  try {
    std::vector<Track> made;
    for (std::int64_t t = 0; t < tracks; ++t) {
      made.push_back(track_of(lengths[t], size, offset, thread, until));
      size += lengths[t], offset += lengths[t], thread += lengths[t], until += lengths[t];
    }
    return new_arena(bytes, alignment, std::move(made));
  } catch (const std::invalid_argument& error) {
    last_error() = error.what();
    return 0;
  } catch (const std::exception& error) {  // no memory
    last_error() = error.what();
    return -1;
  }
}

// Begin a step in an arena; `track` is -1 if the first allocations are to choose. `tell` is called with -1 at the first
// divergence, or is null.
MEMPLAN_EXPORT void memplan_begin(std::int64_t arena, std::int64_t track, void (*tell)(std::int64_t)) {
  memplan::run::session().begin(arena, static_cast<int>(track), tell);
}

// End the steps: nothing more is served.
MEMPLAN_EXPORT void memplan_end() { memplan::run::session().end(); }

// The memory goes back when nothing in it is alive.
MEMPLAN_EXPORT void memplan_release(std::int64_t arena) { memplan::run::session().release(arena); }

// The figures of an arena, in the order in which Python names them.
MEMPLAN_EXPORT void memplan_report(std::int64_t arena, std::int64_t* out) {
  const auto [counts, differs, live, outside, outside_peak] = memplan::run::session().report(arena);
  const std::int64_t figures[] = {counts.steps,   counts.served,    counts.moved,
                                  counts.outside, counts.missed,    counts.missed_bytes,
                                  counts.used,    counts.peak,      live,
                                  outside,        outside_peak,     static_cast<std::int64_t>(differs.reason),
                                  differs.step,   differs.track,    differs.thread,
                                  differs.number, differs.expected, differs.got};
  std::copy(std::begin(figures), std::end(figures), out);
}

// How many arenas have memory: those that were not released, or in which something is alive.
MEMPLAN_EXPORT std::int64_t memplan_arenas() { return static_cast<std::int64_t>(memplan::run::session().arenas()); }

// Begin to look at what the process holds.
MEMPLAN_EXPORT void memplan_watch() { memplan::run::held().begin(); }

// End it; the most that was seen, in bytes; 0 where it is not known.
MEMPLAN_EXPORT std::int64_t memplan_watched() { return memplan::run::held().end(); }
