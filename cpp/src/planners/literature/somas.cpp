// somas: tries several orders, two ways of sharing and several fits, all combined, and keeps the best combination.
//
// Orders: larger buffers first. Equal ones by index, up or down, or by the number of conflicting buffers, up or down,
// and then by index. Sharing: in one arena, or in pools. A pool is as large as the buffer that opened it. A buffer
// takes the first pool that has room, and several buffers may lie beside one another in a pool:
//
//     bytes ▲ ┌──────────────────┐   ┌───────────┐
//           │ │ the first        │   │ ┌──┐┌────┐│      whoever fits nowhere opens a pool
//           │ └──────────────────┘   └─┴──┴┴────┴┘      on top of the last
//           └───────────────────────────────────────▶ step
//
// Fits: of the gaps between conflicting buffers, the tightest, the lowest, the highest or the widest. Buffers that live
// from the first step to the last are laid on top at last. Combinations are tried in MindSpore's order, pools first. A
// later one is kept only if it is smaller. One arena is kept instead of pools only if it is smaller by more than
// `margin`.
//
// MindSpore tries the first order and the first two fits, and the rest in debug builds. Its margin is 100 MiB. This
// planner lacks a later order of MindSpore, and its lists of tensors that must be contiguous.
//
// Complexity: O(n r log n) for each combination in one arena, O(n m) for each in pools with m buffers looked at per
// buffer. Each way of sharing ends after `work` buffers looked at, where a gap counts as 16, but there is always a
// plan. Guarantee: none. Source: MindSpore, SOMAS.
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "memplan/bounds.hpp"
#include "memplan/plan.hpp"
#include "placing/best_so_far.hpp"
#include "placing/placed.hpp"
#include "planners/planners.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kGap = 16;  // finding a gap of the arena takes as long as looking at so many buffers of pools

enum GapChoice { kTightest, kLowest, kHighest, kWidest };

// What an order compares after the size; the factors are 1, -1, or 0 for "does not matter".
struct Ties {
  int conflicts;
  int index;
};

constexpr std::array<Ties, 6> kOrders = {{{0, 1}, {0, -1}, {1, 1}, {1, -1}, {-1, 1}, {-1, -1}}};

struct FreeGap {
  Bytes offset;  // aligned
  Bytes begin;   // before alignment
  Bytes spare;   // bytes that are left of it, alignment's padding included
};

bool is_better(GapChoice fit, const FreeGap& a, const FreeGap& b) {
  if (fit == kLowest) return a.begin < b.begin;
  if (fit == kHighest) return a.begin > b.begin;
  if (a.spare != b.spare) return fit == kTightest ? a.spare < b.spare : a.spare > b.spare;
  return a.begin < b.begin;
}

// The offset that a fit takes in the room of one arena, whose last run has no end.
Bytes fit_in_arena(GapChoice fit, std::span<const OffsetRange> room, Bytes alignment) {
  if (fit == kTightest) return tightest_fit(room, alignment);
  if (fit == kLowest) return lowest_fit(room, alignment);
  return align_up(room.back().lowest, alignment);  // the highest gap, and the widest
}

struct SharedBlock {
  Bytes begin;
  Bytes end;
  std::vector<Index> members;
};

class Solver {
 public:
  Solver(const Problem& problem, std::int64_t work, const Deadline& deadline)
      : problem_(problem), deadline_(deadline), work_(work) {
    sort_out();
    conflicts_ = conflict_counts(problem, movable_, deadline);
  }

  std::vector<Index> ordered(const Ties& ties) const {
    std::vector<Index> order = movable_;
    const auto key = [&](Index i) {
      return std::tuple(-problem_.size(i), ties.conflicts * conflicts_[at(i)], ties.index * i);
    };
    std::sort(order.begin(), order.end(), deadline_.ticking([&](Index a, Index b) { return key(a) < key(b); }));
    return order;
  }

  // Nothing when the work is done, unless it has to be a plan.
  std::optional<Placement> in_arena(std::span<const Index> order, GapChoice fit, bool whatever_it_takes) {
    Placement placement;
    placement.offsets.assign(problem_.size().size(), 0);
    Placed placed(problem_, deadline_);
    for (Index i : order) {
      if (!whatever_it_takes && is_over()) return std::nullopt;
      const std::span<const OffsetRange> room = placed.room(i);
      work_left_ -= kGap * static_cast<std::int64_t>(room.size());
      const Bytes offset = fit_in_arena(fit, room, problem_.alignment(i));
      placement.offsets[at(i)] = offset;
      placed.add(i, offset);
    }
    add_throughout(placement);
    return placement;
  }

  // Nothing when the work is done.
  std::optional<Placement> in_pools(std::span<const Index> order, GapChoice fit) {
    Placement placement;
    placement.offsets.assign(problem_.size().size(), 0);
    std::vector<SharedBlock> pools;
    for (Index i : order) {
      if (is_over()) return std::nullopt;
      const Bytes offset = place_in_pools(i, fit, pools, placement.offsets);
      placement.offsets[at(i)] = offset;
    }
    placement.objects = static_cast<Index>(pools.size() + throughout_.size());
    add_throughout(placement);
    return placement;
  }

  void start_over() { work_left_ = work_; }
  bool is_over() const { return work_left_ < 0; }

 private:
  void sort_out() {
    const std::vector<Index> all = with_bytes(problem_);
    if (all.empty()) return;
    const auto by_first = [&](Index a, Index b) { return problem_.first(a) < problem_.first(b); };
    const auto by_last = [&](Index a, Index b) { return problem_.last(a) < problem_.last(b); };
    const Step from = problem_.first(*std::min_element(all.begin(), all.end(), by_first));
    const Step until = problem_.last(*std::max_element(all.begin(), all.end(), by_last));
    for (Index i : all) {
      const bool throughout = problem_.first(i) == from && problem_.last(i) == until && problem_.parts(i).empty();
      (throughout ? throughout_ : movable_).push_back(i);
    }
  }

  Bytes place_in_pools(Index i, GapChoice fit, std::vector<SharedBlock>& pools, std::span<const Bytes> offsets) {
    for (SharedBlock& pool : pools) {
      --work_left_;
      deadline_.tick();
      if (problem_.conflict(i, pool.members.front())) continue;  // which fills the pool
      if (const auto gap = find_gap(i, fit, pool, offsets)) {
        pool.members.push_back(i);
        return gap->offset;
      }
    }
    const Bytes begin = align_up(pools.empty() ? 0 : pools.back().end, problem_.alignment(i));
    pools.push_back({begin, begin + problem_.size(i), {i}});
    return begin;
  }

  std::optional<FreeGap> find_gap(Index i, GapChoice fit, const SharedBlock& pool, std::span<const Bytes> offsets) {
    taken_.clear();
    for (Index member : pool.members) {
      if (!problem_.conflict(i, member)) continue;
      const Bytes offset = offsets[at(member)];
      taken_.emplace_back(offset, offset + problem_.size(member));
    }
    work_left_ -= static_cast<std::int64_t>(pool.members.size());
    deadline_.tick(pool.members.size());
    std::sort(taken_.begin(), taken_.end());
    taken_.emplace_back(pool.end, pool.end);
    std::optional<FreeGap> best;
    Bytes begin = pool.begin;
    for (const auto& [taken, end] : taken_) {
      const FreeGap gap{align_up(begin, problem_.alignment(i)), begin, taken - begin - problem_.size(i)};
      if (gap.spare >= gap.offset - begin && (!best || is_better(fit, gap, *best))) best = gap;
      begin = std::max(begin, end);
    }
    return best;
  }

  void add_throughout(Placement& placement) const {
    Bytes top = 0;
    for (Index i : movable_) top = std::max(top, placement.offsets[at(i)] + problem_.size(i));
    for (Index i : throughout_) {
      const Bytes offset = align_up(top, problem_.alignment(i));
      placement.offsets[at(i)] = offset;
      top = offset + problem_.size(i);
    }
  }

  const Problem& problem_;
  const Deadline& deadline_;
  std::int64_t work_;
  std::int64_t work_left_ = 0;                  // buffers that may still be looked at
  std::vector<Index> movable_, throughout_;     // the latter live from the first step to the last
  std::vector<std::int64_t> conflicts_;         // per buffer, how many it conflicts with
  std::vector<std::pair<Bytes, Bytes>> taken_;  // of the search in progress
};

// How the best placement so far shares, if there is one.
struct Best {
  Bytes peak = -1;
  bool in_pools = true;

  bool found() const { return peak >= 0; }
  bool is_beaten_by(Bytes other, bool pools, Bytes margin) const {
    return !found() || (other < peak && (pools || !in_pools || peak - other > margin));
  }
};

}  // namespace

Placement somas(const Problem& problem, const PlanOptions& options) {
  const auto orders = static_cast<std::size_t>(options.get(kSomas[0]));
  const int fits = static_cast<int>(options.get(kSomas[1]));
  const Bytes margin = options.get(kSomas[2]);
  const Bytes enough = options.enough(load(problem));
  return best_so_far(problem, options, [&](Placement& kept, const Deadline& deadline) {
    Solver solver(problem, options.get(kSomas[3]), deadline);
    Best best;
    for (const bool pools : {true, false}) {
      solver.start_over();
      for (const Ties& ties : std::span(kOrders).first(orders)) {
        const std::vector<Index> order = solver.ordered(ties);
        for (int fit = 0; fit < fits && !(best.found() && best.peak <= enough); ++fit) {
          auto placement =
              pools ? solver.in_pools(order, GapChoice(fit)) : solver.in_arena(order, GapChoice(fit), !best.found());
          if (!placement) break;
          const Bytes peak = peak_of(problem, placement->offsets);
          if (best.is_beaten_by(peak, pools, margin)) {
            best = {peak, pools};
            kept = *std::move(placement);
          }
          if (best.peak == peak) options.tell({kept.offsets, peak});
        }
      }
    }
  });
}

}  // namespace memplan
