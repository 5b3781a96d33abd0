// greedy_by_breadth: visits the step with most bytes alive first, and places the buffers alive there, the largest
// first. So the steps that decide the peak are packed before anything is in their way.
//
//     bytes alive ▲      ┌─┐              order of the steps: 3, 2, 4, 1; at each, what is alive and not yet placed,
//                 │    ┌─┘ └─┐            by size
//                 │  ┌─┘     └┐
//                 └──┴─┴─┴─┴──┴─▶ step
//                    1 2 3 4
//
// share=offsets: each buffer takes the tightest gap between those placed so far, as greedy_by_size does. share=objects:
// each buffer takes a shared object that is free throughout its life: the smallest that is large enough, or else the
// largest, which grows. If none is free, it opens a new one. Objects lie end to end. Buffers share no object if neither
// of their alignments divides the other.
//
// Ties: earlier step, then index. A buffer is placed at the broadest step of its life, so sorting by that step is the
// same as visiting all steps. With shapes, bytes alive are those of the parts in use.
//
// Complexity: O(n r log n) for offsets; O(n o log n) for o objects. Guarantee: none.
// Source: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020, "greedy by breadth" for
// offset calculation and for shared objects; the latter is in TFLite's GPU delegate.
#include <algorithm>
#include <bit>
#include <iterator>
#include <map>

#include "memplan/bounds.hpp"
#include "placing/in_order.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

// The broadest step of any span, the earliest among equals: a sparse table over the steps at which the load changes.
class BroadestStep {
 public:
  BroadestStep(const Problem& problem, const Deadline& deadline) : curve_(load_curve(problem)) {
    std::vector<std::size_t> step(curve_.step.size());
    for (std::size_t k = 0; k < step.size(); ++k) step[k] = k;
    best_.push_back(std::move(step));
    for (std::size_t width = 1; 2 * width <= curve_.step.size(); width *= 2) {
      deadline.tick(curve_.step.size());
      const std::vector<std::size_t>& half = best_.back();
      std::vector<std::size_t> whole(half.size() - width);
      for (std::size_t k = 0; k < whole.size(); ++k) whole[k] = broader(half[k], half[k + width]);
      best_.push_back(std::move(whole));
    }
  }

  // Its position in the curve; something is born at `first` and dies at `last`.
  std::size_t within(Step first, Step last) const {
    const std::size_t begin = position(first);
    const std::size_t count = position(last) - begin;
    const auto level = at(std::bit_width(count)) - 1;
    return broader(best_[level][begin], best_[level][begin + count - (std::size_t{1} << level)]);
  }

  bool before(std::size_t a, std::size_t b) const {
    return curve_.bytes[a] != curve_.bytes[b] ? curve_.bytes[a] > curve_.bytes[b] : a < b;
  }

 private:
  std::size_t position(Step step) const {
    return at(std::lower_bound(curve_.step.begin(), curve_.step.end(), step) - curve_.step.begin());
  }
  std::size_t broader(std::size_t a, std::size_t b) const { return before(b, a) ? b : a; }

  LoadCurve curve_;
  std::vector<std::vector<std::size_t>> best_;  // per power of two: of the steps [k, k + 2^level)
};

constexpr std::size_t kTicksPerSpan = 16;

std::vector<Index> by_breadth(const Problem& problem, const Deadline& deadline) {
  const BroadestStep broadest(problem, deadline);
  std::vector<std::size_t> step(problem.size().size());
  std::vector<Index> order = with_bytes(problem);
  const auto step_of = [&](Index i) -> std::size_t& { return step[at(i)]; };
  for (Index i : order) {
    step_of(i) = broadest.within(problem.first(i), problem.last(i));
    deadline.tick(kTicksPerSpan);
  }
  std::sort(order.begin(), order.end(), deadline.ticking([&](Index a, Index b) {
    if (step_of(a) != step_of(b)) return broadest.before(step_of(a), step_of(b));
    return problem.size(a) != problem.size(b) ? problem.size(a) > problem.size(b) : a < b;
  }));
  return order;
}

// A shared object: buffers that live one after another take turns in it.
struct Object {
  Bytes size = 0;
  Bytes alignment = 1;         // the largest of its buffers'; each of the others divides it
  std::map<Step, Step> lives;  // first -> last

  bool admits(const Problem& problem, Index i) const {
    if (alignment % problem.alignment(i) != 0 && problem.alignment(i) % alignment != 0) return false;
    const auto next = lives.lower_bound(problem.last(i));
    return next == lives.begin() || std::prev(next)->second <= problem.first(i);
  }

  void add(const Problem& problem, Index i) {
    size = std::max(size, problem.size(i));
    alignment = std::max(alignment, problem.alignment(i));
    lives.emplace(problem.first(i), problem.last(i));
  }
};

// Whether an object of size a is the better place for that many bytes than one of size b.
bool better(Bytes a, Bytes b, Bytes bytes) { return b < bytes ? a > b : bytes <= a && a < b; }

class GrowingObjects {
 public:
  GrowingObjects(const Problem& problem, const Deadline& deadline)
      : problem_(problem), deadline_(deadline), object_of_(problem.size().size(), kNone) {}

  void place(Index i) {
    forbid_conflicts(i);
    Index best = kNone;
    deadline_.tick(1 + objects_.size());
    for (Index k = 0; k < count(); ++k) {
      const bool worse = best != kNone && !better(object(k).size, object(best).size, problem_.size(i));
      if (!worse && !forbidden_[at(k)] && object(k).admits(problem_, i)) best = k;
    }
    if (best == kNone) {
      best = count();
      objects_.emplace_back();
    }
    objects_[at(best)].add(problem_, i);
    object_of_[at(i)] = best;
  }

  Placement laid_end_to_end() const {
    std::vector<Bytes> begin;
    Bytes top = 0;
    for (const Object& object : objects_) {
      begin.push_back(align_up(top, object.alignment));
      top = begin.back() + object.size;
    }
    Placement placement;
    for (Index object : object_of_) placement.offsets.push_back(object == kNone ? 0 : begin[at(object)]);
    placement.objects = count();
    return placement;
  }

 private:
  Index count() const { return static_cast<Index>(objects_.size()); }
  const Object& object(Index k) const { return objects_[at(k)]; }

  void forbid_conflicts(Index i) {
    forbidden_.assign(objects_.size(), false);
    if (problem_.conflicts() == nullptr) return;
    problem_.conflicts()->for_each(i, [&](Index other) {
      const Index object = object_of_[at(other)];
      if (object != kNone) forbidden_[at(object)] = true;
    });
  }

  const Problem& problem_;
  const Deadline& deadline_;
  std::vector<Object> objects_;
  std::vector<Index> object_of_;  // per buffer
  std::vector<bool> forbidden_;   // per object, for the buffer in hand
};

}  // namespace

Placement greedy_by_breadth(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  const std::vector<Index> order = by_breadth(problem, deadline);
  if (options.get(kGreedyByBreadth[0]) == 0) return place_in_order(problem, order, deadline, tightest_fit);
  GrowingObjects objects(problem, deadline);
  for (Index i : order) objects.place(i);
  return objects.laid_end_to_end();
}

}  // namespace memplan
