// The arena that serves recorded steps: what it gives is inside, aligned and free, whatever the steps do.
#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "arena.hpp"
#include "check.hpp"
#include "offers.hpp"
#include "session.hpp"

namespace {

using namespace memplan::run;

constexpr Thread kMe = 1, kOther = 2;
constexpr Address kBase = 1 << 20;

struct Allocation {
  Bytes size, offset;
};

// A track whose allocations live to the end of the step.
Track track_of(const std::vector<std::vector<Allocation>>& lanes) {
  std::int64_t count = 0;
  for (const auto& places : lanes) count += static_cast<std::int64_t>(places.size());
  Track track;
  track.lanes.resize(lanes.size());
  for (std::size_t lane = 0; lane < lanes.size(); ++lane)
    for (const Allocation& place : lanes[lane]) track.add(lane, place.size, place.offset, count);
  return track;
}

Arena arena_of(const std::vector<Allocation>& places, Bytes bytes) { return {kBase, bytes, 64, {track_of({places})}}; }

void test_ranges() {
  LiveRanges live;
  live.add(64, {128, nullptr, 0});
  live.add(256, {300, nullptr, 0});
  CHECK(live.is_free(0, 64) && live.is_free(128, 256) && live.is_free(300, 400));
  CHECK(!live.is_free(0, 65) && !live.is_free(127, 128) && !live.is_free(64, 128) && !live.is_free(0, 400));
  CHECK(!live.is_free(70, 80));
  CHECK(live.remove(64) == 64 && live.remove(64) == -1 && live.by_offset().size() == 1);
  CHECK(live.is_free(0, 256));
}

void test_bounds() {
  THROWS(arena_of({{64, 64}}, 127), std::invalid_argument, "got offset 64 and size 64");
  THROWS(arena_of({{64, -64}}, 128), std::invalid_argument, "aligned to 64");
  THROWS(arena_of({{64, 32}}, 128), std::invalid_argument, "got offset 32");
  THROWS(arena_of({{kAnySize, 0}}, 128), std::invalid_argument, "got offset 0 and size -1");
  THROWS(arena_of({{std::numeric_limits<Bytes>::max(), 64}}, 128), std::invalid_argument, "must lie in the arena");
  THROWS(Arena(kBase, 64, 64, {}), std::invalid_argument, "needs a plan");
  THROWS(Arena(kBase + 1, 64, 64, {Track{}}), std::invalid_argument, "not aligned");
  CHECK(!arena_of({{64, kOutside}}, 0).owns(kBase));
}

void test_a_step_as_recorded() {
  Arena arena = arena_of({{100, 0}, {50, kOutside}, {60, 128}, {100, 0}}, 192);
  for (int step = 0; step < 3; ++step) {
    arena.begin(kMe);
    CHECK(arena.take(kMe, 100) == kBase);
    CHECK(arena.take(kMe, 50) == 0);
    CHECK(arena.take(kMe, 60) == kBase + 128);
    CHECK(arena.owns(kBase) && arena.give(kBase) && !arena.give(kBase));
    CHECK(arena.take(kMe, 100) == kBase);
    CHECK(arena.give(kBase) && arena.give(kBase + 128));
  }
  const Counts& counts = arena.counts();
  CHECK(counts.steps == 3 && counts.served == 9 && counts.outside == 3 && counts.missed == 0);
  CHECK(counts.used == 0 && counts.peak == 160 && arena.live() == 0);
  CHECK(arena.divergence().reason == Reason::none);
}

void test_what_lives_longer_is_left_alone() {
  Arena arena = arena_of({{100, 0}, {100, 0}, {64, 128}}, 192);
  arena.begin(kMe);
  CHECK(arena.take(kMe, 100) == kBase);
  CHECK(arena.take(kMe, 100) == 0);  // the first is still there
  CHECK(arena.take(kMe, 64) == kBase + 128);
  const Divergence& first = arena.divergence();
  CHECK(first.reason == Reason::occupied && first.step == 0 && first.number == 1 && first.expected == 100);
  CHECK(arena.take(kMe, 999) == 0);
  CHECK(arena.counts().missed == 2 && arena.divergence().number == 1);  // the first one stays
}

void test_what_outlives_its_step_lies_outside_from_then_on() {
  Arena arena = arena_of({{100, 0}, {64, 128}}, 192);
  arena.begin(kMe);
  CHECK(arena.take(kMe, 100) == kBase && arena.take(kMe, 64) == kBase + 128);
  arena.give(kBase + 128);
  for (int step = 0; step < 3; ++step) {
    arena.begin(kMe);
    CHECK(arena.take(kMe, 100) == 0 && arena.take(kMe, 64) == kBase + 128);
    arena.give(kBase + 128);
  }
  CHECK(arena.counts().outside == 3 && arena.counts().missed == 0);
  CHECK(arena.give(kBase));
}

void test_what_dies_in_the_next_step_stays_inside() {
  Track track;
  track.add(0, 100, 0, 2 + 1 + 1);  // dies after the first allocation of the next step
  track.add(0, 64, 128, 2);
  Arena arena(kBase, 256, 64, {track});
  arena.begin(kMe);
  CHECK(arena.take(kMe, 100) == kBase && arena.take(kMe, 64) == kBase + 128);
  arena.give(kBase + 128);
  arena.begin(kMe);
  CHECK(arena.take(kMe, 100) == 0);  // it is not dead yet
  arena.give(kBase);
  arena.begin(kMe);
  CHECK(arena.take(kMe, 100) == kBase);
  CHECK(arena.counts().outside == 0 && arena.counts().missed == 1);
}

void test_what_finds_no_room_in_its_slot_takes_a_gap() {
  constexpr Bytes kPage = 4096;
  Track track;
  track.add(0, kPage, 0, 2);              // dies before the third
  track.add(0, 2 * kPage, 4 * kPage, 4);  // lives on
  track.add(0, 3 * kPage, 0, 4);          // takes the place of the first
  track.add(0, kPage, 10 * kPage, 4);
  Arena arena(kBase, 16 * kPage, 64, {track});
  const auto page = [&](Bytes size) {
    const Address address = arena.take(kMe, size);
    return address == 0 ? -1 : static_cast<Bytes>(address - kBase) / kPage;
  };
  arena.begin(kMe);
  CHECK(page(10000) == 0);   // the third wants these bytes, but only after its death
  CHECK(page(10001) == 11);  // 7 pages are free from 3 on, 5 from 11 on
  CHECK(page(9 * kPage) == -1);
  CHECK(page(kPage) == 10);
  CHECK(arena.counts().moved == 2 && arena.counts().served == 3 && arena.counts().missed == 1);
}

void test_a_gap_is_free_in_the_next_step_too() {
  constexpr Bytes kPage = 4096;
  Track track;
  track.add(0, kPage, 0, 1);
  track.add(0, kPage, 4 * kPage, 2 + 1 + 1);  // dies in the next step, after its first allocation
  Arena arena(kBase, 8 * kPage, 64, {track});
  arena.begin(kMe);
  CHECK(arena.take(kMe, kPage) == kBase && arena.give(kBase));
  CHECK(arena.take(kMe, 2 * kPage) == kBase + kPage);
}

// The places of a step whose sizes differ from those of the tape, -1 outside.
std::vector<Bytes> places(const std::vector<Bytes>& tape, const std::vector<Bytes>& step) {
  std::vector<Allocation> slots;
  Bytes end = 0;
  for (const Bytes size : tape) {
    slots.push_back({size, end});
    end += 1024;
  }
  Arena arena = arena_of(slots, end);
  arena.begin(kMe);
  std::vector<Bytes> found;
  for (const Bytes size : step) {
    const Address address = arena.take(kMe, size);
    found.push_back(address == 0 ? -1 : static_cast<Bytes>(address - kBase) / 1024);
  }
  return found;
}

void test_the_order_is_found_again() {
  using Places = std::vector<Bytes>;
  const std::vector<Bytes> tape = {10, 20, 30, 40, 50, 60};
  CHECK(places(tape, {10, 20, 30, 40, 50, 60, 70}) == (Places{0, 1, 2, 3, 4, 5, -1}));
  CHECK(places(tape, {10, 40, 50, 60}) == (Places{0, 3, 4, 5}));                         // some are gone
  CHECK(places(tape, {10, 999, 20, 30, 40, 50, 60}) == (Places{0, -1, 1, 2, 3, 4, 5}));  // one is new
  CHECK(places(tape, {10, 30, 20, 40, 50, 60}) == (Places{0, 2, 1, 3, 4, 5}));           // two are swapped
  CHECK(places(tape, {10, 15, 30, 40, 50, 60}) == (Places{0, 1, 2, 3, 4, 5}));           // one is smaller
  CHECK(places(tape, {10, 25, 30, 40, 50, 60}) == (Places{0, -1, 2, 3, 4, 5}));          // one is larger
}

// How many allocations of a step are taken for what they are. A step is a list of positions on the tape, -1 for what is
// new and has a size of the tape by chance.
std::size_t recognised(const std::vector<Bytes>& tape, const std::vector<int>& step) {
  Follower follower(tape);
  std::size_t right = 0;
  for (int round = 0; round < 2; ++round) {
    right = 0;
    follower.begin();
    for (const int at : step) {
      const Bytes size = at < 0 ? tape[7 * follower.count() % tape.size()] : tape[static_cast<std::size_t>(at)];
      const Follower::Found found = follower.next(size);
      right += at >= 0 && found.slot == static_cast<std::size_t>(at);
    }
  }
  return right;
}

void test_a_shift_is_found() {
  std::vector<Bytes> tape;
  for (int i = 0; i < 400; ++i) tape.push_back(10 * (i % 50) + i / 50);  // similar parts, as layers are
  std::vector<int> all(400);
  for (int i = 0; i < 400; ++i) all[static_cast<std::size_t>(i)] = i;
  CHECK(recognised(tape, all) == 400);
  for (const int many : {1, 3, 30, 200}) {
    std::vector<int> gone = all, more = all;
    gone.erase(gone.begin() + 100, gone.begin() + 100 + many);
    more.insert(more.begin() + 100, static_cast<std::size_t>(many), -1);
    CHECK(recognised(tape, gone) + 20 >= gone.size());
    CHECK(recognised(tape, more) + 20 >= all.size());
  }
}

void test_a_few_equal_sizes_make_no_shift() {
  std::vector<Bytes> tape;
  for (int i = 0; i < 300; ++i) tape.push_back(i);
  Follower follower(tape);
  follower.begin();
  for (int i = 0; i < 100; ++i) follower.next(i);
  for (int i = 0; i < 8; ++i) CHECK(follower.next(150 + i).slot == static_cast<std::size_t>(100 + i));
  CHECK(follower.next(108).as_recorded);
}

void test_a_shift_is_followed() {
  std::vector<Bytes> tape;
  for (int i = 0; i < 300; ++i) tape.push_back(i);
  Follower follower(tape);
  follower.begin();
  for (int i = 0; i < 100; ++i) follower.next(i);
  for (int i = 130; i < 170; ++i) follower.next(i);
  for (int i = 170; i < 200; ++i) CHECK(follower.next(i).as_recorded);
  follower.begin();  // the next step has none
  for (int i = 0; i < 300; ++i) CHECK(follower.next(i).as_recorded);
}

void test_a_certain_shift_is_kept() {
  std::vector<Bytes> tape;
  for (int i = 0; i < 300; ++i) tape.push_back(i);
  Follower follower(tape);
  follower.begin();
  for (int i = 0; i < 100; ++i) follower.next(i);
  for (int i = 200; i < 240; ++i) follower.next(i);
  for (int i = 0; i < 10; ++i) follower.next(999);
  CHECK(follower.next(150).slot == 250);  // as the first shift had it, by chance
  CHECK(follower.next(251).as_recorded);
}

void test_a_step_begins_without_a_shift() {
  Follower follower({10, 20, 30, 40, 50, 60, 70, 80});
  follower.begin();
  CHECK(follower.next(20).slot == 1 && follower.next(10).slot == 0);  // swapped
  CHECK(follower.next(30).as_recorded);
}

void test_a_slot_is_found_once() {
  Follower follower({10, 20, 30, 40});
  follower.begin();
  CHECK(follower.next(20).slot == 1);  // instead of the first
  CHECK(!follower.next(20).as_recorded);
  CHECK(follower.next(20).slot == 2);
  CHECK(follower.next(30).slot == 2 && follower.next(10).slot == 0);
}

void test_threads_have_slots_of_their_own() {
  Arena arena(kBase, 512, 64, {track_of({{{64, 0}, {64, 64}}, {{64, 128}, {64, 192}}})});
  arena.begin(kMe);
  CHECK(arena.take(kOther, 64) == kBase + 128);
  CHECK(arena.take(kMe, 64) == kBase);
  CHECK(arena.take(kMe, 64) == kBase + 64);
  CHECK(arena.take(kOther, 64) == kBase + 192);
  CHECK(arena.take(3, 64) == 0);  // not on the tape
  CHECK(arena.divergence().reason == Reason::thread && arena.divergence().thread == 2);
}

void test_the_first_allocations_choose_the_track() {
  const Track train = track_of({{{10, 0}, {20, 64}, {30, 128}}});
  const Track last = track_of({{{10, 0}, {15, 64}, {25, 128}}});
  Arena arena(kBase, 256, 64, {train, last, track_of({{{10, 192}}})});
  arena.begin(kMe);
  CHECK(arena.take(kMe, 10) == kBase && arena.take(kMe, 15) == kBase + 64 && arena.take(kMe, 25) == kBase + 128);
  CHECK(arena.track() == 1 && arena.divergence().reason == Reason::none);
  for (const Bytes offset : {0, 64, 128}) arena.give(kBase + static_cast<Address>(offset));
  arena.begin(kMe, 2);
  CHECK(arena.take(kMe, 10) == kBase + 192);
  CHECK(arena.take(kMe, 20) == 0);  // the name was given: no other track is tried
  CHECK(arena.divergence().reason == Reason::longer && arena.divergence().track == 2);
  arena.begin(kMe);
  CHECK(arena.take(kMe, 10) == 0 && arena.take(kMe, 20) == kBase + 64 && arena.take(kMe, 30) == kBase + 128);
  CHECK(arena.track() == 0);
}

// Steps at random, compared with a plain list of what is alive.
void test_any_step(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<Track> tracks(static_cast<std::size_t>(1 + below(3)));
  constexpr Bytes kBytes = 64 * 4096;
  constexpr int kMost = 4 * 4096;
  for (Track& track : tracks) {
    track.lanes.resize(1);
    for (int i = below(100); i > 0; --i) {
      const Bytes size = 1 + below(kMost), offset = 4096 * below(60);
      const std::int64_t until = track.count + 1 + below(60);
      track.add(static_cast<std::size_t>(below(3)), size, below(5) == 0 ? kOutside : offset, until);
    }
  }
  Arena arena(kBase, kBytes, 64, tracks);
  std::map<Address, Bytes> alive;
  std::int64_t served = 0, refused = 0;
  for (int step = 0; step < 20; ++step) {
    const auto followed = static_cast<std::size_t>(below(static_cast<int>(tracks.size())));
    arena.begin(kMe, below(3) == 0 ? static_cast<int>(followed) : kAnyTrack);
    const auto& slots = tracks[followed].lanes.front();
    std::size_t next = 0;
    for (int i = below(60); i > 0; --i) {
      if (below(3) == 0 && !alive.empty()) {
        const auto gone = std::next(alive.begin(), below(static_cast<int>(alive.size())));
        CHECK(arena.owns(gone->first) && arena.give(gone->first));
        alive.erase(gone);
        continue;
      }
      const bool as_recorded = below(4) != 0 && next < slots.size();
      const Bytes size = as_recorded ? slots[next++].size : 1 + below(kMost);
      const Address address = arena.take(static_cast<Thread>(below(8) == 0 ? below(4) : kMe), size);
      ++(address == 0 ? refused : served);
      if (address == 0) continue;
      CHECK(address % 64 == 0 && address >= kBase && address + static_cast<Address>(size) <= kBase + kBytes);
      for (const auto& [begin, bytes] : alive)
        CHECK(address + static_cast<Address>(size) <= begin || begin + static_cast<Address>(bytes) <= address);
      alive.emplace(address, size);
    }
    Bytes used = 0;
    for (const auto& [begin, bytes] : alive) used += bytes;
    CHECK(arena.live() == alive.size() && arena.counts().used == used);
  }
  CHECK(arena.counts().served == served && arena.counts().missed + arena.counts().outside == refused);
}

void test_a_session_records() {
  Session session;
  int first = 0, second = 0, late = 0;
  CHECK(!session.born(&late, 8));
  session.record(nullptr);
  CHECK(session.take(8) == nullptr);
  CHECK(session.born(&first, 8, 7));
  std::thread([&] { session.born(&second, 16); }).join();
  CHECK(session.give(&first).tag == 7);
  session.born(&first, 24);
  const Recording made = session.recorded();
  CHECK((made.size == std::vector<Bytes>{8, 16, 24}));
  CHECK((made.birth == std::vector<std::int64_t>{0, 1, 3} && made.death == std::vector<std::int64_t>{2, -1, -1}));
  CHECK((made.thread == std::vector<std::int64_t>{0, 1, 0} && made.ticks == 4));
  session.record(nullptr);
  session.give(&first);  // of the recording before
  CHECK(session.recorded().ticks == 0);
}

// Memory that counts what is freed twice or not at all, under a sanitizer.
std::int64_t add_arena(Session& session, const Track& track, std::size_t bytes, int& freed) {
  void* memory = ::operator new(bytes, std::align_val_t(64));
  Arena arena(reinterpret_cast<Address>(memory), static_cast<Bytes>(bytes), 64, {track});
  return session.add(std::move(arena), [memory, &freed] {
    ::operator delete(memory, std::align_val_t(64));
    ++freed;
  });
}

void test_an_arena_lives_as_long_as_what_lies_in_it() {
  Session session;
  int freed = 0;
  const std::int64_t id = add_arena(session, track_of({{{64, 0}, {64, 64}}}), 128, freed);
  session.begin(id, kAnyTrack, nullptr);
  char* kept = static_cast<char*>(session.take(64));
  char* gone = static_cast<char*>(session.take(64));
  CHECK(kept != nullptr && gone == kept + 64);
  session.end();
  CHECK(session.take(64) == nullptr);
  session.release(id);
  session.release(id);
  CHECK(session.give(gone).in_arena && freed == 0);
  for (int i = 0; i < 64; ++i) kept[i] = 1;
  CHECK(session.give(kept).in_arena && freed == 1 && session.arenas() == 0);
}

void test_a_report_counts_what_lies_outside() {
  Session session;
  int freed = 0, first = 0, second = 0;
  const std::int64_t id = add_arena(session, track_of({{{64, 0}}}), 64, freed);
  session.begin(id, kAnyTrack, nullptr);
  session.born(&first, 100);
  session.born(&second, 50);
  session.give(&first);
  CHECK(session.report(id).outside == 50 && session.report(id).outside_peak == 150);
  session.end();
  session.give(&second);
  CHECK(session.report(id).outside == 0 && session.report(id).outside_peak == 150);
  session.release(id);
}

void test_a_session_takes_any_thread() {
  Session session;
  int freed = 0;
  std::vector<Allocation> slots;
  for (Bytes i = 0; i < 100; ++i) slots.push_back({64, 64 * (i % 10)});
  const std::int64_t id = add_arena(session, track_of({{}, slots, slots, slots, slots}), 640, freed);
  std::atomic<int> served = 0, wrong = 0;
  for (int step = 0; step < 20; ++step) {
    session.begin(id, kAnyTrack, nullptr);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 100; ++i) {
          char* p = static_cast<char*>(session.take(64));
          if (p == nullptr) continue;
          for (int k = 0; k < 64; ++k) p[k] = static_cast<char>(t);
          for (int k = 0; k < 64; ++k) wrong += p[k] != static_cast<char>(t);
          ++served;
          session.give(p);
        }
      });
    for (std::thread& thread : threads) thread.join();
    session.end();
  }
  session.release(id);
  CHECK(freed == 1 && wrong == 0 && served > 0);
}

void test_results_are_made_in_their_places() {
  Offers offers;
  CHECK(offers.take(4096) == 0);  // no call
  offers.begin({{{kBase, 100}, kAnyNumber}, {{kBase + 128, 100}, kAnyNumber}}, {});
  CHECK(offers.take(99) == 0);
  CHECK(offers.take(100) == kBase);
  CHECK(offers.take(100) == kBase + 128);
  CHECK(offers.take(100) == 0);
  CHECK(offers.give(kBase) && !offers.give(kBase));
  CHECK(offers.take(100) == kBase);
  CHECK(offers.number_of(kBase) == 4 && offers.number_of(kBase + 128) == 2 && offers.number_of(1) == kAnyNumber);
  const auto ended = offers.end();
  CHECK(ended.asked == 5 && ended.kept == 2 && ended.elsewhere == 0);
}

void test_a_result_is_the_allocation_of_its_number() {
  Offers offers;
  offers.begin({{{kBase, 100}, 1}}, {});
  CHECK(offers.take(100) == 0 && offers.take(100) == kBase && offers.take(100) == 0);
  offers.end();
}

// What a call has made says where scratch of the next one may lie: as results by their numbers, whose places meet.
void test_scratch_by_number() {
  Offers offers;
  offers.begin({}, {});
  offers.take(300), offers.missed(kBase + 4096, 300);
  offers.freed_elsewhere(kBase + 4096, 300);
  offers.take(200), offers.missed(kBase + 4096, 200);
  const auto& made = offers.made();
  CHECK(made.size() == 2 && made[0].size == 300 && made[0].born == 0 && made[0].died == 1);
  CHECK(made[1].at == kBase + 4096 && made[1].born == 2 && made[1].died == Made::kAlive);
  offers.end();
  offers.begin({{{kBase, 300}, 0}, {{kBase + 128, 200}, 1}}, {});
  CHECK(offers.take(300) == kBase);
  CHECK(offers.take(200) == 0);  // the first is still there
  CHECK(offers.give(kBase));
  offers.end();
  offers.begin({{{kBase, 300}, 0}, {{kBase + 128, 200}, 1}}, {});
  CHECK(offers.take(300) == kBase && offers.give(kBase) && offers.take(200) == kBase + 128);
  CHECK(offers.made()[0].died == 1 && offers.end().kept == 1);
}

// A result that belongs nowhere comes from elsewhere, once: what is asked for besides is scratch.
void test_results_outside() {
  Offers offers;
  offers.begin({{{0, 8192}, kAnyNumber}}, {{kBase, 1 << 20}});
  CHECK(offers.take(8192) == 0 && offers.take(8192) == kBase);
  offers.begin({{{0, 8192}, 1}}, {{kBase, 1 << 20}});
  CHECK(offers.take(8192) == kBase && offers.take(8192) == 0);
  CHECK(offers.end().kept == 1 && offers.end().kept == 1);
}

void test_calls_nest() {
  Offers offers;
  offers.begin({{{kBase, 100}, kAnyNumber}}, {});
  offers.begin({}, {});
  CHECK(offers.take(100) == 0);
  offers.missed(kBase + 512, 100);
  offers.freed_elsewhere(kBase + 512, 100);
  CHECK(offers.end().elsewhere == 100);
  CHECK(offers.take(100) == kBase);
  CHECK(offers.end().elsewhere == 0);
}

// Scratch lies in what is free, aligned, and apart from all that is taken. Returns how much was served.
int any_scratch(unsigned seed) {
  std::mt19937 chance(seed);
  const auto below = [&](Address limit) { return static_cast<Address>(chance()) % limit; };
  std::vector<Place> ranges;
  Address top = kBase;
  for (Address i = 0, count = 1 + below(5); i < count; ++i) {
    top += 64 * below(100);
    ranges.push_back({top, static_cast<Bytes>(64 * (1 + below(1000)))});
    top += static_cast<Address>(ranges.back().size);
  }
  Offers offers;
  offers.begin({}, ranges);
  std::map<Address, Bytes> taken;
  int served = 0;
  for (int turn = 0; turn < 100; ++turn) {
    if (!taken.empty() && below(2) == 0) {
      const auto any = std::next(taken.begin(), static_cast<std::ptrdiff_t>(below(taken.size())));
      CHECK(offers.give(any->first));
      taken.erase(any);
      continue;
    }
    const Bytes size = Offers::kSmall + static_cast<Bytes>(below(9000));
    const auto fits = [&](Address from) {
      const Address end = from + static_cast<Address>(size);
      for (const auto& [begin, bytes] : taken)
        if (begin < end && from < begin + static_cast<Address>(bytes)) return false;
      for (const Place& range : ranges)
        if (range.begin <= from && end <= range.begin + static_cast<Address>(range.size)) return true;
      return false;
    };
    const Address found = offers.take(size);
    if (found == 0) {
      for (Address from = kBase; from < top; from += 64) CHECK(!fits(from));
      continue;
    }
    CHECK(found % 64 == 0 && fits(found));
    taken[found] = size;
    ++served;
  }
  CHECK(offers.take(Offers::kSmall - 1) == 0);
  CHECK(offers.end().kept == static_cast<std::int64_t>(taken.size()));
  return served;
}

void test_scratch_lies_in_what_is_free() {
  int served = 0;
  for (unsigned seed = 0; seed < 200; ++seed) served += any_scratch(seed);
  CHECK(served > 2000);
}

}  // namespace

int main() {
  test_ranges();
  test_bounds();
  test_a_step_as_recorded();
  test_what_lives_longer_is_left_alone();
  test_what_outlives_its_step_lies_outside_from_then_on();
  test_what_dies_in_the_next_step_stays_inside();
  test_what_finds_no_room_in_its_slot_takes_a_gap();
  test_a_gap_is_free_in_the_next_step_too();
  test_the_order_is_found_again();
  test_a_shift_is_found();
  test_a_few_equal_sizes_make_no_shift();
  test_a_shift_is_followed();
  test_a_certain_shift_is_kept();
  test_a_step_begins_without_a_shift();
  test_a_slot_is_found_once();
  test_threads_have_slots_of_their_own();
  test_the_first_allocations_choose_the_track();
  for (unsigned seed = 0; seed < 500; ++seed) test_any_step(seed);
  test_results_are_made_in_their_places();
  test_a_result_is_the_allocation_of_its_number();
  test_scratch_by_number();
  test_results_outside();
  test_calls_nest();
  test_scratch_lies_in_what_is_free();
  test_a_session_records();
  test_an_arena_lives_as_long_as_what_lies_in_it();
  test_a_report_counts_what_lies_outside();
  test_a_session_takes_any_thread();
  return check::finish();
}
