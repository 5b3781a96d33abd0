// What waits for streams: memory that the program has given back, while a stream may still work on it.
//
// Work on a GPU is queued. A stream runs its queue in order, and streams run side by side. An event that is recorded in
// a stream completes when all that was queued before it is done.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cuda_driver.hpp"

namespace memplan::run {

using DeviceStream = std::pair<int, Stream>;

// Things of a kind, each of which waits until some streams have come past a point. Not safe across threads.
template <class Thing>
class Waiting {
 public:
  explicit Waiting(const Driver& driver) : driver_(driver) {}

  // The thing waits for all that is queued in the streams now. If CUDA cannot say when that is, it waits for ever.
  void add(Thing thing, const std::set<DeviceStream>& streams) {
    const std::size_t id = next_id_++;
    Entry& entry = things_.emplace(id, Entry{std::move(thing), 0}).first->second;
    for (const DeviceStream& stream : streams) {
      ++entry.events;
      if (Event event = record(stream)) queues_[stream].push_back({event, id});
    }
  }

  // What no longer waits. Events of a stream complete in order, so the first that has not ends the look at a stream.
  std::vector<Thing> completed() {
    std::vector<Thing> done;
    for (auto& [stream, queue] : queues_) {
      while (!queue.empty()) {
        const int error = driver_.EventQuery(queue.front().first);
        if (error != kSuccess) {
          driver_.GetLastError();
          break;
        }
        free_events_[stream.first].push_back(queue.front().first);
        count_down(queue.front().second, done);
        queue.pop_front();
      }
    }
    return done;
  }

  // Blocks until all that is queued now has completed.
  void wait() {
    for (auto& [stream, queue] : queues_)
      if (!queue.empty() && driver_.EventSynchronize(queue.back().first) != kSuccess) driver_.GetLastError();
  }

  std::size_t count() const { return things_.size(); }

 private:
  struct Entry {
    Thing thing;
    int events;
  };

  Event record(const DeviceStream& stream) {
    const OnDevice on(driver_, stream.first);
    std::vector<Event>& free = free_events_[stream.first];
    Event event = nullptr;
    if (!free.empty()) {
      event = free.back();
      free.pop_back();
    } else if (driver_.EventCreateWithFlags(&event, kWithoutTiming) != kSuccess) {
      driver_.GetLastError();
      return nullptr;
    }
    if (driver_.EventRecord(event, stream.second) == kSuccess) return event;
    driver_.GetLastError();
    free.push_back(event);
    return nullptr;
  }

  void count_down(std::size_t id, std::vector<Thing>& done) {
    const auto found = things_.find(id);
    if (--found->second.events > 0) return;
    done.push_back(std::move(found->second.thing));
    things_.erase(found);
  }

  const Driver& driver_;
  std::size_t next_id_ = 0;
  std::map<std::size_t, Entry> things_;
  std::map<DeviceStream, std::deque<std::pair<Event, std::size_t>>> queues_;
  std::map<int, std::vector<Event>> free_events_;  // by device
};

}  // namespace memplan::run
