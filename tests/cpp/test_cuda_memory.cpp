// The allocator of CUDA on a GPU of its own: streams whose work is queued and done later, in any order that CUDA
// allows. Kernels write into memory and look whether it is still there. What is given out too early shows as another's
// bytes.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include "check.hpp"
#include "cuda_allocator.hpp"

namespace {

using namespace memplan::run;

// A GPU: devices with a limit of bytes, and streams as queues of work.
struct Gpu {
  struct Mark {
    bool done = true;
  };

  std::map<void*, std::size_t> memory;
  std::size_t held = 0, limit = std::numeric_limits<std::size_t>::max();
  std::map<Stream, std::deque<std::function<bool()>>> queues;  // a job is false while it has to wait
  std::map<Event, std::shared_ptr<Mark>> events;
  std::size_t next_event = 1;
  int device = 0, error = 0;
  bool fails = false, captures = false, is_lost = false;

  void queue(Stream stream, std::function<void()> kernel) {
    queues[stream].push_back([kernel = std::move(kernel)] { return kernel(), true; });
  }

  bool step(Stream stream) {
    auto& queue = queues[stream];
    if (queue.empty() || !queue.front()()) return false;
    queue.pop_front();
    return true;
  }

  void finish() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& [stream, queue] : queues)
        while (step(stream)) moved = true;
    }
  }
};

Gpu* gpu = nullptr;

int failing(int error) { return gpu->error = error; }

Driver driver() {
  Driver made;
  made.Malloc = [](void** pointer, std::size_t bytes) {
    if (gpu->fails) return failing(1);
    if (bytes > gpu->limit - std::min(gpu->limit, gpu->held)) return failing(kOutOfMemory);
    *pointer = std::aligned_alloc(kGranule, (bytes + kGranule - 1) / kGranule * kGranule);
    gpu->held += gpu->memory[*pointer] = bytes;
    return kSuccess;
  };
  made.Free = [](void* pointer) {
    gpu->finish();  // as CUDA does
    const auto found = gpu->memory.extract(pointer);
    CHECK(!found.empty());
    gpu->held -= found.mapped();
    std::free(pointer);
    return kSuccess;
  };
  made.GetDevice = [](int* device) { return *device = gpu->device, kSuccess; };
  made.SetDevice = [](int device) { return device > 3 ? failing(101) : (gpu->device = device, kSuccess); };
  made.DeviceSynchronize = [] { return gpu->is_lost ? failing(1) : (gpu->finish(), kSuccess); };
  made.EventCreateWithFlags = [](Event* event, unsigned) {
    if (gpu->fails) return failing(1);
    gpu->events[*event = reinterpret_cast<Event>(gpu->next_event++)] = std::make_shared<Gpu::Mark>();
    return kSuccess;
  };
  made.EventDestroy = [](Event event) { return gpu->events.erase(event), kSuccess; };
  made.EventRecord = [](Event event, Stream stream) {
    if (gpu->fails) return failing(1);
    auto mark = gpu->events[event] = std::make_shared<Gpu::Mark>();
    mark->done = false;
    gpu->queue(stream, [mark] { mark->done = true; });
    return kSuccess;
  };
  made.EventQuery = [](Event event) { return gpu->events.at(event)->done ? kSuccess : failing(kNotReady); };
  made.EventSynchronize = [](Event event) { return gpu->finish(), CHECK(gpu->events.at(event)->done), kSuccess; };
  made.StreamWaitEvent = [](Stream stream, Event event, unsigned) {
    gpu->queues[stream].push_back([mark = gpu->events.at(event)] { return mark->done; });
    return kSuccess;
  };
  made.StreamIsCapturing = [](Stream, int* status) { return *status = gpu->captures, gpu->fails ? 1 : kSuccess; };
  made.GetLastError = [] { return std::exchange(gpu->error, kSuccess); };
  made.GetErrorString = [](int error) { return error == 1 ? "invalid value" : "another"; };
  return made;
}

Stream stream_of(std::size_t number) { return reinterpret_cast<Stream>(number); }
const Stream kMain = nullptr, kSide = stream_of(7);

struct Fixture {
  Gpu mine;
  Session session;
  CudaAllocator cuda;

  Fixture() : cuda((gpu = &mine, driver()), session) { cuda.serve({0, kMain}); }
  ~Fixture() {
    CHECK(mine.error == kSuccess);  // what memplan saw is not left for the next call of CUDA
    mine.finish();
    for (const auto& [pointer, bytes] : mine.memory) std::free(pointer);
  }

  CudaFigures figures() { return cuda.memory().figures(0, false); }

  using Places = std::vector<std::pair<Bytes, Bytes>>;  // size, offset

  std::int64_t arena(Bytes bytes, const Places& places) {
    Track track;
    for (const auto& [size, offset] : places) track.add(0, size, offset, static_cast<std::int64_t>(places.size()));
    std::vector<Track> tracks;
    tracks.push_back(std::move(track));
    void* memory = cuda.take_arena(static_cast<std::size_t>(bytes));
    Arena made(reinterpret_cast<Address>(memory), bytes, 512, std::move(tracks));
    return session.add(std::move(made),
                       [this, memory, bytes] { cuda.memory().give_arena(memory, static_cast<std::size_t>(bytes)); });
  }
};

void test_segments_are_split_and_joined() {
  Fixture f;
  void* a = f.cuda.allocate(1, 0, kMain);
  void* b = f.cuda.allocate(1000, 0, kMain);
  void* c = f.cuda.allocate(512, 0, kMain);
  CHECK(static_cast<char*>(b) - static_cast<char*>(a) == 512 && static_cast<char*>(c) - static_cast<char*>(b) == 1024);
  CHECK(f.figures().reserved == 2 << 20 && f.figures().allocated == 2048 && f.figures().taken == 1);
  CHECK(f.cuda.allocate(0, 0, kMain) == nullptr);
  f.cuda.free(nullptr);
  f.cuda.free(a);
  f.cuda.free(c);
  f.cuda.free(b);
  CHECK(f.figures().allocated == 0 && f.figures().allocated_peak == 2048);
  void* whole = f.cuda.allocate(1 << 20, 0, kMain);
  CHECK(whole == a);  // joined to one
  f.cuda.free(whole);
  f.cuda.empty();
  CHECK(f.figures().reserved == 0 && f.mine.memory.empty() && f.figures().reserved_peak == 2 << 20);
  void* large = f.cuda.allocate((1 << 20) + 1, 0, kMain);
  CHECK(f.figures().reserved == 20 << 20);
  void* own = f.cuda.allocate(19 << 20, 0, kMain);
  CHECK(f.figures().reserved == 40 << 20);
  f.cuda.free(large);
  f.cuda.free(own);
  CHECK(f.cuda.allocate(19 << 20, 0, kMain) != nullptr && f.figures().reserved == 40 << 20);
  CHECK(f.figures().reused == 4);
}

void test_streams_do_not_share() {
  Fixture f;
  void* a = f.cuda.allocate(512, 0, kMain);
  f.cuda.free(a);
  void* b = f.cuda.allocate(512, 0, kSide);
  void* c = f.cuda.allocate(512, 1, kMain);
  CHECK(a != b && a != c && b != c && f.figures().reserved == 4 << 20);
  CHECK(f.cuda.memory().figures(1, false).reserved == 2 << 20 && f.mine.device == 0);
  CHECK(f.cuda.allocate(512, 0, kMain) == a);
  for (void* p : {a, b, c}) f.cuda.free(p);
  f.cuda.empty();  // of all devices
  CHECK(f.mine.memory.empty() && f.cuda.memory().figures(1, false).reserved == 0 && f.mine.device == 0);
}

void test_what_another_stream_uses_waits_for_it() {
  Fixture f;
  void* a = f.cuda.allocate(512, 0, kMain);
  f.mine.queue(kSide, [] {});
  f.cuda.used(a, kSide);
  f.cuda.used(a, kMain);   // its own stream is no other
  f.cuda.used(&f, kSide);  // not from here
  f.cuda.free(a);
  CHECK(f.cuda.memory().waits() == 1 && f.figures().allocated == 512);
  CHECK(f.cuda.allocate(512, 0, kMain) != a);
  f.mine.finish();
  CHECK(f.cuda.allocate(512, 0, kMain) == a && f.cuda.memory().waits() == 0);
  f.cuda.free(&f);
}

void test_out_of_memory() {
  Fixture f;
  f.mine.limit = 24 << 20;
  void* a = f.cuda.allocate(2 << 20, 0, kMain);
  f.cuda.used(a, kSide);
  f.cuda.free(a);
  void* b = f.cuda.allocate(22 << 20, 0, kMain);  // waits for the other stream, and gives its segment back
  CHECK(b != nullptr && f.figures().reserved == 22 << 20);
  THROWS(f.cuda.allocate(4 << 20, 0, kMain), OutOfMemory, "tried to allocate 4194304 bytes on device 0; memplan's");
  THROWS(f.cuda.allocate(SIZE_MAX, 0, kMain), std::runtime_error, "an allocation of");
  THROWS(f.cuda.take_arena(4 << 20), OutOfMemory, "CUDA out of memory");
  f.cuda.free(b);
  CHECK(f.cuda.allocate(4 << 20, 0, kMain) != nullptr);
}

void test_errors_of_cuda() {
  Fixture f;
  void* a = f.cuda.allocate(512, 0, kMain);
  f.cuda.used(a, kSide);
  f.mine.fails = true;
  f.cuda.free(a);
  f.mine.fails = false;
  f.mine.finish();
  CHECK(f.cuda.allocate(512, 0, kMain) != a && f.cuda.memory().waits() == 1);  // nobody can say when: never
  f.mine.captures = true;
  THROWS(f.cuda.allocate(512, 0, kMain), std::runtime_error, "does not serve CUDA graphs");
  f.mine.captures = false;
  f.mine.fails = true;
  THROWS(f.cuda.allocate(512, 0, kMain), std::runtime_error, "does not serve CUDA graphs");
  f.mine.is_lost = true;
  THROWS(f.cuda.serve({0, kSide}), std::runtime_error, "cudaDeviceSynchronize: invalid value");
  CHECK(f.cuda.memory().serves({0, kMain}) && !f.cuda.memory().serves({0, kSide}));
  f.mine.is_lost = false;
  f.cuda.serve({0, kSide});  // waits for the device instead
  CHECK(f.cuda.memory().serves({0, kSide}));
  CHECK(f.mine.error == kSuccess);
  THROWS(f.cuda.memory().allocate(100 << 20, 0, kMain), std::runtime_error, "cudaMalloc: invalid value");
}

void test_steps_are_recorded_and_served() {
  Fixture f;
  const auto step = [&] {
    void* a = f.cuda.allocate(700, 0, kMain);
    void* side = f.cuda.allocate(99, 0, kSide);
    void* b = f.cuda.allocate(512, 0, kMain);
    f.cuda.free(a);
    void* c = f.cuda.allocate(300, 0, kMain);
    for (void* p : {b, c, side}) f.cuda.free(p);
  };
  f.session.record(nullptr);
  step();
  const Recording tape = f.session.recorded();
  CHECK((tape.size == std::vector<Bytes>{700, 512, 300} && tape.death == std::vector<std::int64_t>{2, 4, 5}));
  const auto id = f.arena(1536, {{700, 0}, {512, 1024}, {300, 0}});
  CHECK(f.figures().arenas == 1536 && f.figures().reserved == 1536);  // what the cache kept went back
  for (int i = 0; i < 3; ++i) {
    f.session.begin(id, 0, nullptr);
    step();
    f.session.end();
  }
  CHECK(f.session.report(id).counts.served == 9 && f.session.report(id).counts.missed == 0);
  f.session.release(id);
  CHECK(f.figures().arenas == 0 && f.session.arenas() == 0);
}

void test_an_arena_waits_for_other_streams_too() {
  Fixture f;
  const auto id = f.arena(512, {{512, 0}, {512, 0}});
  void* first = nullptr;
  for (int step = 0; step < 3; ++step) {
    f.cuda.serve({0, kMain});
    f.session.begin(id, 0, nullptr);
    void* a = f.cuda.allocate(512, 0, kMain);
    if (step == 0) first = a;
    CHECK(a == first);
    f.mine.queue(kSide, [] {});
    f.cuda.used(a, kSide);
    f.cuda.free(a);
    void* b = f.cuda.allocate(512, 0, kMain);
    CHECK(a != b && f.cuda.memory().waits() == 1);
    f.cuda.free(b);
    f.session.end();
    f.mine.finish();
  }
  CHECK(f.session.report(id).counts.served == 3);
  f.cuda.serve({0, kMain});
  f.session.release(id);
  CHECK(f.session.arenas() == 0 && f.cuda.memory().waits() == 0);
}

void test_threads() {
  Fixture f;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<void*> mine;
    for (int i = 0; i < 2000; ++i) {
      if (mine.size() < 8) mine.push_back(f.cuda.allocate(1 + random() % 4000, 0, kMain));
      if (random() % 3 == 0) f.cuda.used(mine.front(), kSide);
      if (random() % 2 == 0) f.cuda.free(std::exchange(mine[random() % mine.size()], nullptr));
      std::erase(mine, nullptr);
    }
    for (void* p : mine) f.cuda.free(p);
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
  f.cuda.empty();
  CHECK(f.figures().reserved == 0 && f.figures().allocated == 0);
}

// Programs of several streams

constexpr std::size_t kStreams = 3;

class Program {
 public:
  explicit Program(unsigned seed) : random_(seed) { f_.mine.limit = 64 << 20; }

  void run() {
    Fixture::Places places;
    for (Bytes i = 0; i < 12; ++i) places.push_back({1024 * (1 + i % 3), 2048 * (i % 5)});
    const auto id = f_.arena(2048 * 5 + 3072, places);
    for (int i = 0; i < 12; ++i) {
      const Stream main = stream_of(at_most(1));
      f_.cuda.serve({0, main});
      f_.session.begin(id, 0, nullptr);
      for (int k = 0; k < 12; ++k) act(places[static_cast<std::size_t>(k)].first, main);
      f_.session.end();
    }
    served = f_.session.report(id).counts.served;
    while (!live_.empty()) release();
    f_.mine.finish();
    f_.cuda.empty();
    f_.session.release(id);
    CHECK(f_.session.arenas() == 0 && f_.figures().reserved == 0 && f_.figures().allocated == 0);
  }

  std::int64_t served = 0;

 private:
  struct Tensor {
    char* data;
    std::size_t size;
    Stream stream;
    bool shared = false;  // with another stream
  };

  std::size_t at_most(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(random_); }

  void act(Bytes planned, Stream main) {
    const bool on_side = at_most(4) == 0;
    const Stream stream = on_side ? stream_of(at_most(kStreams - 1)) : main;
    const std::size_t size = at_most(5) == 0 ? 1 + at_most(3000) : static_cast<std::size_t>(planned);
    auto* data = static_cast<char*>(f_.cuda.allocate(size, 0, stream));
    live_.push_back({data, size, stream});
    work(live_.back(), stream);
    if (at_most(3) == 0) {  // as a program has to: the other stream waits, and is told of
      const Stream other = stream_of(at_most(kStreams - 1));
      after(stream, other);
      work(live_.back(), other);
      live_.back().shared = true;
      f_.cuda.used(data, other);
    }
    const Tensor& older = live_[at_most(live_.size() - 1)];
    if (at_most(2) == 0 && !older.shared) work(older, older.stream);
    while (live_.size() > 4 || (!live_.empty() && at_most(1) == 0)) release();
    for (std::size_t k = at_most(6); k > 0; --k) f_.mine.step(stream_of(at_most(kStreams - 1)));
  }

  // A kernel that writes, and one that finds what was written.
  void work(const Tensor& t, Stream stream) {
    const char tag = static_cast<char>(++tags_);
    f_.mine.queue(stream, [=] { std::memset(t.data, tag, t.size); });
    f_.mine.queue(stream, [=] {
      bool same = true;
      for (std::size_t i = 0; i < t.size; ++i) same &= t.data[i] == tag;
      CHECK(same);
    });
  }

  void after(Stream before, Stream other) {
    const Driver& driver = f_.cuda.memory().driver();
    Event event = nullptr;
    driver.EventCreateWithFlags(&event, 0);
    driver.EventRecord(event, before);
    driver.StreamWaitEvent(other, event, 0);
    driver.EventDestroy(event);
  }

  void release() {
    std::swap(live_[at_most(live_.size() - 1)], live_.back());
    f_.cuda.free(live_.back().data);
    live_.pop_back();
  }

  Fixture f_;
  std::mt19937 random_;
  std::vector<Tensor> live_;
  unsigned tags_ = 0;
};

void test_random_programs() {
  std::int64_t served = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    Program program(seed);
    program.run();
    served += program.served;
  }
  CHECK(served > 10000);
}

}  // namespace

int main() {
  test_segments_are_split_and_joined();
  test_streams_do_not_share();
  test_what_another_stream_uses_waits_for_it();
  test_out_of_memory();
  test_errors_of_cuda();
  test_steps_are_recorded_and_served();
  test_an_arena_waits_for_other_streams_too();
  test_threads();
  test_random_programs();
  return check::finish();
}
