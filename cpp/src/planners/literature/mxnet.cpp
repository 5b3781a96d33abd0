// mxnet: simulates the reference counts of a run. After the last reader of a buffer, its block goes to a list of free
// blocks. A new buffer takes a block of about its size from this list, or else a new block. Blocks grow to the largest
// size that they ever hold, and get their offsets after the simulation.
//
//   free blocks by size    ├──┤  ├───┤  ├────────┤       first the smallest that is large enough, up to size * range;
//                              ◀──────┼──────▶           then the largest that is smaller, down to size / range: it
//                      size / range  size  size * range  grows
//
// Of free blocks of one size, the oldest is taken if it is large enough, and the newest if it must grow. Buffers born
// at one step, such as the outputs of an op, take blocks in descending size, the last index first among equals, as in
// MXNet. With a range of 1, only free blocks of exactly the same size are taken; with 0, none. A block is passed over
// if it has held a buffer that conflicts beyond lifetimes, as MXNet does with blocks released by an op of another
// colour.
//
// MXNet counts elements of four bytes, whatever their type; here sizes are bytes. Tensors that share bytes in place are
// one buffer already.
//
// Complexity: O(n log n); extra conflicts add the blocks passed over times their members.
// Guarantee: none. Source: MXNet, optimizing memory consumption in deep learning; plan_memory.cc of NNVM and MXNet.
#include <map>

#include "placing/shared_objects.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

class Simulation {
 public:
  Simulation(const Problem& problem, Bytes range)
      : problem_(problem), range_(range), objects_(problem), object_of_(problem.size().size(), kNone) {}

  void request(Index i) {
    Index object = take_free(i);
    if (object == kNone) {
      object = objects_.open();
      largest_.push_back(0);
    }
    Bytes& largest = largest_[at(object)];
    largest = std::max(largest, problem_.size(i));
    objects_.put(object, i);
    object_of_[at(i)] = object;
  }

  void release(Index i) {
    const Index object = object_of_[at(i)];
    free_.emplace(largest_[at(object)], object);
  }

  Placement end_to_end() const { return objects_.end_to_end(); }

 private:
  using Free = std::multimap<Bytes, Index>;  // objects by size, the oldest release first among equals

  Index take_free(Index i) {
    if (range_ == 0) return kNone;
    const Bytes size = problem_.size(i);
    const Bytes most = size > kMaxBytes / range_ ? kMaxBytes : size * range_;
    const auto middle = free_.lower_bound(size);
    for (auto it = middle; it != free_.end() && it->first <= most; ++it)
      if (objects_.may_hold(it->second, i)) return take(it);
    for (auto it = middle; it != free_.begin() && std::prev(it)->first >= size / range_;)
      if (objects_.may_hold((--it)->second, i)) return take(it);
    return kNone;
  }

  Index take(Free::iterator it) {
    const Index object = it->second;
    free_.erase(it);
    return object;
  }

  const Problem& problem_;
  Bytes range_;
  SharedObjects objects_;
  std::vector<Index> object_of_;  // per buffer
  std::vector<Bytes> largest_;    // per object
  Free free_;
};

std::vector<Index> by_request(const Problem& problem, const Deadline& deadline) {
  std::vector<Index> order = by_birth(problem);
  std::sort(order.begin(), order.end(), deadline.ticking([&](Index a, Index b) {
    if (problem.first(a) != problem.first(b)) return problem.first(a) < problem.first(b);
    return problem.size(a) != problem.size(b) ? problem.size(a) > problem.size(b) : a > b;
  }));
  return order;
}

}  // namespace

Placement mxnet(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  Simulation simulation(problem, options.get(kMxnet[0]));
  live_through(
      problem, by_request(problem, deadline), deadline, [&](Index i) { simulation.release(i); },
      [&](Index i) { simulation.request(i); });
  return simulation.end_to_end();
}

}  // namespace memplan
