// exhaustive: an optimum of small problems, and the proof that it is one.
//
// Take an optimal plan whose offsets have the least sum. No buffer in it can be moved to a lower aligned offset while
// the others stay, or the sum would be less. Place its buffers in the order of their offsets (ties: index):
//
//     offset ▲    ┌─────┐         Each buffer lies at its floor: the first aligned offset above all buffers placed
//            │    │  2  │         before that conflict with it. Not lower, because these begin no higher and must end
//            │ ┌──┴──┬──┴──┐      below it. Not higher, because then it could be moved down. So 2 lies on 0,
//            │ │  0  │     │      the highest buffer below it.
//            │ └─────┤  1  │
//            └───────┴─────┴─▶ step
//
// So it is enough to search through orders of placement, with each buffer at its floor and offsets that never descend:
// some order gives that plan. The argument asks only which pairs conflict, so it holds with alignments, and with
// conflicts beyond lifetimes. With shapes, a buffer may rest on one that begins above it, so shapes are not supported.
// It would not be enough to try the low ends of free blocks by birth, as beam does: a buffer may have to begin inside a
// free block.
//
// A branch is cut when
//   - some unplaced buffer, at its floor, would end at or below the start of each buffer that may come next: it could be
//     moved down there
//   - at some moment, the unplaced buffers alive, stacked by their floors, end at or above the best peak so far
//   - an identical buffer (size, alignment, conflicts) of lower index is unplaced: they may be exchanged
// The search starts from greedy_by_size. It ends at the bound, or with a capacity, when a plan fits or none can. Groups
// of buffers that no chain of conflicts connects are solved one by one, the largest load first.
//
// Complexity: exponential; n^2 per node. Guarantee: an optimum, with its proof, unless the nodes or the time limit run
// out first. Source: the overview of greedy, beam and exhaustive planning, for the idea; semi-active schedules,
// for what is searched: Giffler and Thompson, Algorithms for Solving Production-Scheduling Problems, 1960.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>

#include "memplan/errors.hpp"
#include "memplan/plan.hpp"
#include "placing/best_so_far.hpp"
#include "planners/planners.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostInComponent = 64;  // buffers in a component

using Set = std::uint64_t;  // of positions in a component

constexpr Set bit(std::size_t p) { return Set{1} << p; }

template <class F>
void for_each(Set set, F&& f) {
  for (; set != 0; set &= set - 1) f(at(std::countr_zero(set)));
}

// What all components share.
struct Budget {
  std::int64_t nodes;
  const Deadline& deadline;
  std::function<void()> improved;  // called when the placement peaks lower in a component

  bool spent() { return nodes-- <= 0 || (nodes % 1024 == 0 && deadline.passed()); }
};

// Buffers that chains of conflicts connect.
class Component {
 public:
  Component(const Problem& problem, std::vector<Index> buffers) : buffers_(std::move(buffers)) {
    for (Index i : buffers_) {
      size_.push_back(problem.size(i));
      alignment_.push_back(problem.alignment(i));
      conflicts_.push_back(
          matching([&](std::size_t p) { return i != buffers_[p] && problem.conflict(i, buffers_[p]); }));
      add_moment(matching([&](std::size_t p) {
        return problem.first(buffers_[p]) <= problem.first(i) && problem.first(i) < problem.last(buffers_[p]);
      }));
    }
    for (Moment& moment : moments_)
      for_each(moment.alive, [&](std::size_t p) { moment.divisor = std::gcd(moment.divisor, alignment_[p]); });
    for (std::size_t p = 0; p < count(); ++p)
      twins_.push_back(matching([&](std::size_t q) { return q < p && twins(p, q); }));
  }

  // No plan of the component peaks below; at least its load.
  Bytes bound() const { return bound(all(), Offsets{}, 0); }

  Bytes peak(const Placement& placement) const {
    Bytes top = 0;
    for (std::size_t p = 0; p < count(); ++p) top = std::max(top, offset(placement, p) + size_[p]);
    return top;
  }

  // Lowers the placement's peak of this component, to below `limit` at least, until it is at most `enough`. Returns
  // what it has proven that no plan peaks below: 0 when it came to its end before all was tried.
  Bytes improve(Placement& placement, Bytes enough, Bytes limit, Budget& budget) {
    best_ = std::min(peak(placement), limit);
    enough_ = enough;
    complete_ = true;
    budget_ = &budget;
    placement_ = &placement;
    if (best_ > enough_) search(all(), Offsets{}, 0, 0, 0);
    return done() ? 0 : best_;
  }

 private:
  using Offsets = std::array<Bytes, kMostInComponent>;

  struct Moment {
    Set alive = 0;
    Bytes divisor = 0;  // of their alignments, the greatest common one
  };

  std::size_t count() const { return buffers_.size(); }
  Set all() const { return count() == kMostInComponent ? ~Set{0} : bit(count()) - 1; }
  Bytes offset(const Placement& placement, std::size_t p) const { return placement.offsets[at(buffers_[p])]; }

  template <class F>
  Set matching(F&& f) const {
    Set set = 0;
    for (std::size_t p = 0; p < count(); ++p)
      if (f(p)) set |= bit(p);
    return set;
  }

  bool twins(std::size_t p, std::size_t q) const {
    return size_[p] == size_[q] && alignment_[p] == alignment_[q] &&
           (conflicts_[p] & ~bit(q)) == (conflicts_[q] & ~bit(p));
  }

  // Keeps the moments at which most is alive: none is contained in another.
  void add_moment(Set alive) {
    for (const Moment& other : moments_)
      if ((alive & ~other.alive) == 0) return;
    std::erase_if(moments_, [&](const Moment& other) { return (other.alive & ~alive) == 0; });
    moments_.push_back({alive, 0});
  }

  // Places what is unplaced in all orders from here. `floors` are those of unplaced buffers, the offsets of others;
  // `lowest` and `first` are the offset and the position that the next buffer may not come before.
  void search(Set unplaced, const Offsets& floors, Bytes lowest, std::size_t first, Bytes top) {
    if (top >= best_) return;
    if (unplaced == 0) return keep(floors, top);
    if (budget_->spent()) complete_ = false;
    if (done() || bound(unplaced, floors, lowest) >= best_) return;
    Bytes lowest_end = kMaxBytes;
    for_each(unplaced, [&](std::size_t p) { lowest_end = std::min(lowest_end, floors[p] + size_[p]); });
    std::array<std::size_t, kMostInComponent> next;
    std::size_t branches = 0;
    for_each(unplaced, [&](std::size_t p) {
      const bool in_order = floors[p] > lowest || (floors[p] == lowest && p >= first);
      if (in_order && floors[p] < lowest_end && (twins_[p] & unplaced) == 0) next[branches++] = p;
    });
    std::sort(next.begin(), next.begin() + static_cast<std::ptrdiff_t>(branches), [&](std::size_t a, std::size_t b) {
      if (floors[a] != floors[b]) return floors[a] < floors[b];
      return size_[a] != size_[b] ? size_[a] > size_[b] : a < b;
    });
    for (std::size_t k = 0; k < branches && !done(); ++k) place(next[k], unplaced, floors, top);
  }

  void place(std::size_t p, Set unplaced, const Offsets& floors, Bytes top) {
    const Bytes end = floors[p] + size_[p];
    const Set rest = unplaced & ~bit(p);
    Offsets raised = floors;
    for_each(conflicts_[p] & rest,
             [&](std::size_t q) { raised[q] = std::max(raised[q], align_up(end, alignment_[q])); });
    search(rest, raised, floors[p], p + 1, std::max(top, end));
  }

  // No plan from here peaks lower: at each moment, what is unplaced is stacked by its floors. Where all alignments have
  // a common divisor, what is stacked begins at its multiples, so that every size but the last counts rounded up.
  Bytes bound(Set unplaced, const Offsets& floors, Bytes lowest) const {
    std::array<std::size_t, kMostInComponent> order;
    std::size_t n = 0;
    for_each(unplaced, [&](std::size_t p) { order[n++] = p; });
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n),
              [&](std::size_t a, std::size_t b) { return floors[a] != floors[b] ? floors[a] < floors[b] : a < b; });
    Bytes highest = 0;
    for (const Moment& moment : moments_) {
      Bytes top = lowest;
      Bytes rounded = lowest;
      Bytes padding = 0;  // the most that the last may have
      for (std::size_t k = 0; k < n; ++k) {
        const std::size_t p = order[k];
        if ((moment.alive & bit(p)) == 0) continue;
        const Bytes whole = align_up(size_[p], moment.divisor);
        top = std::max(top, floors[p]) + size_[p];
        rounded = std::max(rounded, floors[p]) + whole;
        padding = std::max(padding, whole - size_[p]);
      }
      highest = std::max({highest, top, rounded - padding});
    }
    return highest;
  }

  bool done() const { return !complete_ || best_ <= enough_; }

  void keep(const Offsets& offsets, Bytes top) {
    best_ = top;
    for (std::size_t p = 0; p < count(); ++p) placement_->offsets[at(buffers_[p])] = offsets[p];
    budget_->improved();
  }

  std::vector<Index> buffers_;
  std::vector<Bytes> size_, alignment_;
  std::vector<Set> conflicts_;
  std::vector<Set> twins_;  // those of lower index
  std::vector<Moment> moments_;
  Bytes best_ = 0;
  Bytes enough_ = 0;
  bool complete_ = true;
  Budget* budget_ = nullptr;
  Placement* placement_ = nullptr;
};

// Which buffers hang together.
class DisjointSets {
 public:
  explicit DisjointSets(std::size_t count) : parent_(count) {
    for (std::size_t i = 0; i < count; ++i) parent_[i] = static_cast<Index>(i);
  }

  Index root(Index i) {
    while (parent(i) != i) i = parent(i) = parent(parent(i));
    return i;
  }
  void join(Index a, Index b) { parent(std::max(root(a), root(b))) = std::min(root(a), root(b)); }

 private:
  Index& parent(Index i) { return parent_[at(i)]; }

  std::vector<Index> parent_;
};

std::vector<std::vector<Index>> connected(const Problem& problem) {
  const std::vector<Index> births = by_birth(problem);
  DisjointSets sets(problem.size().size());
  Index longest = kNone;  // what dies last of those born so far
  for (Index born : births) {
    if (longest != kNone && problem.first(born) < problem.last(longest)) sets.join(longest, born);
    if (longest == kNone || problem.last(born) > problem.last(longest)) longest = born;
    if (problem.conflicts() == nullptr) continue;
    problem.conflicts()->for_each(born, [&](Index other) {
      if (problem.size(other) > 0) sets.join(born, other);
    });
  }
  std::vector<std::vector<Index>> trees(problem.size().size());
  for (Index i : with_bytes(problem)) trees[at(sets.root(i))].push_back(i);
  std::erase_if(trees, [](const auto& tree) { return tree.empty(); });
  return trees;
}

void refuse_large(const std::vector<std::vector<Index>>& trees) {
  for (const std::vector<Index>& tree : trees)
    if (tree.size() > kMostInComponent)
      throw UnsupportedError("planner 'exhaustive' takes at most " + std::to_string(kMostInComponent) +
                             " buffers that hang together, this problem has " + std::to_string(tree.size()));
}

std::vector<Component> components_of(const Problem& problem, const std::vector<std::vector<Index>>& trees,
                                     const Deadline& deadline) {
  std::vector<Component> components;
  for (const std::vector<Index>& tree : trees) {
    deadline.tick(tree.size() * tree.size());
    components.emplace_back(problem, tree);
  }
  std::stable_sort(components.begin(), components.end(), [&](const Component& a, const Component& b) {
    deadline.tick(kMostInComponent);
    return a.bound() > b.bound();
  });
  return components;
}

}  // namespace

Placement exhaustive(const Problem& problem, const PlanOptions& options) {
  const std::vector<std::vector<Index>> trees = connected(problem);
  refuse_large(trees);
  return best_so_far(problem, options, [&](Placement& best, const Deadline& deadline) {
    Placement greedy = greedy_by_size_until(problem, deadline);
    const bool warm = !options.warm.empty() && peak_of(problem, best.offsets) < peak_of(problem, greedy.offsets);
    if (!warm) best = std::move(greedy);
    std::vector<Component> components = components_of(problem, trees, deadline);
    const auto tell = [&] {
      if (!options.improved) return;
      options.improved({best.offsets, peak_of(problem, best.offsets), best.lower_bound});
    };
    tell();
    Budget budget{options.get(kExhaustive[0]), deadline, tell};
    const Bytes limit = options.capacity ? saturated_add(*options.capacity, 1) : kMaxBytes;  // what fits is below
    for (Component& component : components) {
      deadline.tick();
      Bytes& bound = best.lower_bound;
      bound = std::max(bound, component.bound());
      if (bound >= limit) break;
      bound = std::max(bound, component.improve(best, options.enough(bound), limit, budget));
    }
  });
}

}  // namespace memplan
