// coloring: colours the graph of conflicts greedily. Buffers of one colour share an object as large as the largest of
// them.
//
//     0 ─── 1        0 and 1, 1 and 2 are alive together: 1 needs a colour of its own,
//           │        0 and 2 share one
//           2
//
// Each buffer in turn takes the lowest colour that none of its neighbours has. The orders:
//   birth   by birth. On lifetimes, no colouring has fewer colours: at a birth, each lower colour belongs to a buffer
//           that is alive then, so there are as many colours as buffers in the largest clique.
//   size    the largest first, ties by birth: objects hold buffers of like size, but there may be more objects.
//   dsatur  the one with the most colours among its neighbours first, ties by the most neighbours without a colour.
// The last tie goes by index. The fewest objects are not the fewest bytes: a colour may join a large buffer with small
// ones.
//
// Complexity: O(n log n + p), with dsatur O(n^2 + p), 8 p bytes of memory; refuses more than 250,000,000 pairs, and
// more than 100,000 buffers with dsatur.
// Guarantee: order=birth uses the fewest objects, unless there are conflicts beyond lifetimes.
// Source: MXNet, optimizing memory consumption in deep learning; GE memory reuse, 4.1; Brelaz 1979 for dsatur.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "memplan/bounds.hpp"
#include "memplan/errors.hpp"
#include "placing/neighbours.hpp"
#include "placing/shared_objects.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kMostPairs = 250'000'000;
constexpr std::int64_t kMostForDsatur = 100'000;

using Colors = std::vector<Index>;  // per buffer; kNone where it has none yet

void refuse_beyond(std::int64_t most, std::string_view what, std::int64_t count) {
  if (count > most)
    throw UnsupportedError("planner 'coloring' takes at most " + std::to_string(most) + " " + std::string(what) +
                           ", this problem has " + std::to_string(count));
}

std::int64_t pairs(const Problem& problem) {
  std::int64_t count = 0;
  if (problem.conflicts() != nullptr)
    for (Index i = 0; i < problem.count(); ++i) problem.conflicts()->for_each(i, [&](Index) { ++count; });
  return overlapping_pairs(problem) + count / 2;
}

std::vector<Index> by_size(const Problem& problem, const Deadline& deadline) {
  std::vector<Index> order = by_birth(problem);
  std::stable_sort(order.begin(), order.end(),
                   deadline.ticking([&](Index a, Index b) { return problem.size(a) > problem.size(b); }));
  return order;
}

Colors color_in_order(const std::vector<Index>& order, const Neighbours& neighbours, std::size_t count,
                      const Deadline& deadline) {
  Colors color(count, kNone);
  std::vector<Index> taken_for(order.size(), kNone);  // per color: the buffer that last saw it at a neighbour
  for (Index i : order) {
    for (Index j : neighbours.of(i))
      if (const Index c = color[at(j)]; c != kNone) taken_for[at(c)] = i;
    const auto free = std::find_if(taken_for.begin(), taken_for.end(), [i](Index seen) { return seen != i; });
    color[at(i)] = static_cast<Index>(free - taken_for.begin());
    deadline.tick(1 + neighbours.of(i).size() + at(color[at(i)]));
  }
  return color;
}

// A set of colors that grows with the highest one in it.
class ColorSet {
 public:
  // Whether it is new.
  bool add(Index color) {
    const auto word = at(color) / 64;
    if (word >= words_.size()) words_.resize(word + 1);
    const std::uint64_t bit = std::uint64_t{1} << (static_cast<unsigned>(color) % 64);
    const bool is_new = (words_[word] & bit) == 0;
    words_[word] |= bit;
    return is_new;
  }

  Index lowest_missing() const {
    const auto word = std::find_if(words_.begin(), words_.end(), [](std::uint64_t w) { return ~w != 0; });
    const auto full = static_cast<Index>(64 * (word - words_.begin()));
    return word == words_.end() ? full : full + std::countr_one(*word);
  }

  void clear() { words_ = {}; }

 private:
  std::vector<std::uint64_t> words_;
};

// Picks the next of dsatur by a look at all: one comparison of numbers each.
class Dsatur {
 public:
  Dsatur(const std::vector<Index>& buffers, const Neighbours& neighbours, std::size_t count)
      : neighbours_(neighbours), color_(count, kNone), urgency_(count, kDone), seen_(count) {
    for (Index i : buffers) urgency_[at(i)] = static_cast<std::int64_t>(neighbours.of(i).size());
  }

  Colors run(const Deadline& deadline) {
    while (true) {
      deadline.tick(1 + urgency_.size() / 8);  // a comparison of neighbours in memory takes less than a tick
      const auto next = std::max_element(urgency_.begin(), urgency_.end());
      if (next == urgency_.end() || *next == kDone) return color_;
      give_color(static_cast<Index>(next - urgency_.begin()));
    }
  }

 private:
  static constexpr std::int64_t kDone = -1;
  static constexpr std::int64_t kOneColor = std::int64_t{1} << 32;  // more than any number of neighbours

  void give_color(Index i) {
    const Index color = seen_[at(i)].lowest_missing();
    color_[at(i)] = color;
    urgency_[at(i)] = kDone;
    seen_[at(i)].clear();
    for (Index j : neighbours_.of(i)) {
      if (color_[at(j)] != kNone) continue;
      std::int64_t& urgency = urgency_[at(j)];
      --urgency;
      if (seen_[at(j)].add(color)) urgency += kOneColor;
    }
  }

  const Neighbours& neighbours_;
  Colors color_;
  std::vector<std::int64_t> urgency_;  // colors among the neighbours, then neighbours without one; kDone once colored
  std::vector<ColorSet> seen_;         // per buffer: the colors of its neighbours
};

Placement objects_by_color(const Problem& problem, const std::vector<Index>& buffers, const Colors& color) {
  SharedObjects objects(problem);
  for (Index i : buffers) {
    const Index c = color[at(i)];
    while (objects.count() <= c) objects.open();
    objects.put(c, i);
  }
  return objects.end_to_end();
}

}  // namespace

Placement coloring(const Problem& problem, const PlanOptions& options) {
  enum Order { kBirth, kSize, kDsatur };
  const std::int64_t chosen = options.get(kColoring[0]);
  const Deadline deadline(options);
  refuse_beyond(kMostPairs, "pairs in conflict", pairs(problem));
  const std::vector<Index> order = chosen == kSize ? by_size(problem, deadline) : by_birth(problem);
  if (chosen == kDsatur) refuse_beyond(kMostForDsatur, "buffers by dsatur", static_cast<std::int64_t>(order.size()));
  const Neighbours neighbours(problem, deadline);
  const std::size_t count = problem.size().size();
  const Colors color = chosen == kDsatur ? Dsatur(order, neighbours, count).run(deadline)
                                         : color_in_order(order, neighbours, count, deadline);
  return objects_by_color(problem, order, color);
}

}  // namespace memplan
