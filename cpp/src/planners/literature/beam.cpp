// beam: takes buffers by birth (ties: index), and keeps the k best of all ways to place the buffers born so far.
//
//     offset ▲ ┌────┐            each way has one successor per free block that holds the next buffer, at the block's
//            │ └────┘ ◀ above    low end, and one above everything in use
//            │ ┌────┐ ◀ a gap
//            │ └────┘
//            └────────▶ step
//
// A way is better if its peak so far is lower. Ways with the same peak have equally many free bytes below it; then
// fewer free blocks are better. Of ways that are still equal, the one made first counts: from the better way, in the
// lower block. k=1 is a greedy planner that grows the arena only when it must. A larger k is not always better: other
// ways that look better for a while may crowd out the way that k=1 follows.
//
// A way is kept as its blocks in use, with the steps at which they become free. Two ways with the same blocks have the
// same future, so only the better one is kept. If the search has to end early, it follows the best way alone for a
// moment. If that is not enough, the plan is that of first_fit.
//
// Complexity: O(n k (a + log(k a))) for a buffers alive at a time; O(k (n + a)) memory. Guarantee: none.
// Source: the overview of greedy, beam and exhaustive planning.
#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "memplan/plan.hpp"
#include "placing/best_so_far.hpp"
#include "planners/planners.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

constexpr double kSecondsAlone = 0.05;

struct Block {
  Bytes begin = 0;
  Bytes end = 0;
  Step last = 0;

  bool operator==(const Block&) const = default;
};

struct Way {
  std::vector<Block> used;  // by address
  Bytes peak = 0;           // the highest end that any block ever had
  std::size_t choice = 0;   // the last one that led here
};

struct BeamChoice {
  Bytes offset = 0;
  std::size_t before = 0;  // the choice for the buffer before
};

struct Successor {
  Bytes peak = 0;
  std::size_t free_blocks = 0;  // below the peak
  std::size_t way = 0;
  std::size_t gap = 0;  // below which of its blocks; their number for above all
  Bytes offset = 0;

  bool operator<(const Successor& other) const {
    return std::tie(peak, free_blocks, way, gap) < std::tie(other.peak, other.free_blocks, other.way, other.gap);
  }
};

class Beam {
 public:
  Beam(const Problem& problem, std::size_t k) : problem_(problem), k_(k), births_(by_birth(problem)) {}

  // Places those that are not placed yet; whoever is in turn when the deadline passes is not.
  void place_all(const Deadline& deadline) {
    for (; placed_ < births_.size(); ++placed_) {
      const Index born = births_[placed_];
      for (Way& way : ways_) {
        deadline.tick(1 + way.used.size() / 8);
        std::erase_if(way.used, [&](const Block& block) { return block.last <= problem_.first(born); });
      }
      list_successors(born, deadline);
      keep_the_best(born, deadline);
    }
  }

  void follow_the_best_alone() { k_ = 1; }

  // Of the best way, once all are placed.
  Placement placement() const {
    Placement placement;
    placement.offsets.assign(problem_.size().size(), 0);
    std::size_t choice = ways_.front().choice;
    for (auto born = births_.rbegin(); born != births_.rend(); ++born, choice = choices_[choice].before)
      placement.offsets[at(*born)] = choices_[choice].offset;
    return placement;
  }

 private:
  void list_successors(Index born, const Deadline& deadline) {
    successors_.clear();
    for (std::size_t w = 0; w < ways_.size(); ++w) {
      const Way& way = ways_[w];
      deadline.tick(1 + way.used.size());
      const std::size_t free_blocks = count_free_blocks(way);
      Bytes free = 0;  // where the gap begins
      for (std::size_t gap = 0; gap <= way.used.size(); ++gap) {
        const bool above = gap == way.used.size();
        const Bytes limit = above ? way.peak : way.used[gap].begin;
        const Bytes offset = align_up(free, problem_.alignment(born));
        const Bytes end = offset + problem_.size(born);
        const std::size_t left = (free < offset ? 1u : 0u) + (end < limit ? 1u : 0u);
        if (above || end <= limit)
          successors_.push_back(
              {std::max(way.peak, end), free_blocks - (free < limit ? 1u : 0u) + left, w, gap, offset});
        if (!above) free = way.used[gap].end;
      }
    }
  }

  static std::size_t count_free_blocks(const Way& way) {
    std::size_t count = 0;
    Bytes free = 0;
    for (const Block& block : way.used) {
      if (free < block.begin) ++count;
      free = block.end;
    }
    return count + (free < way.peak ? 1u : 0u);
  }

  // A heap of successors gives up the best until k different ones are found.
  void keep_the_best(Index born, const Deadline& deadline) {
    const auto worse = [](const Successor& a, const Successor& b) { return b < a; };
    std::make_heap(successors_.begin(), successors_.end(), worse);
    std::vector<Way> kept;
    kept_by_hash_.clear();
    for (auto end = successors_.end(); end != successors_.begin() && kept.size() < k_; --end) {
      std::pop_heap(successors_.begin(), end, worse);
      const Successor& best = *(end - 1);
      Way way = follow(best, born);
      deadline.tick(1 + way.used.size() / 8);
      if (k_ > 1 && is_kept(way, kept)) continue;
      way.choice = choices_.size();
      choices_.push_back({best.offset, ways_[best.way].choice});
      kept.push_back(std::move(way));
    }
    ways_ = std::move(kept);
  }

  Way follow(const Successor& successor, Index born) const {
    const std::vector<Block>& used = ways_[successor.way].used;
    const auto gap = used.begin() + static_cast<std::ptrdiff_t>(successor.gap);
    Way way;
    way.used.reserve(used.size() + 1);
    way.used.assign(used.begin(), gap);
    way.used.push_back({successor.offset, successor.offset + problem_.size(born), problem_.last(born)});
    way.used.insert(way.used.end(), gap, used.end());
    way.peak = successor.peak;
    return way;
  }

  // Whether a way with the same blocks is there; if not, this one will be, next.
  bool is_kept(const Way& way, const std::vector<Way>& kept) {
    std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a, by words
    const auto mix = [&](std::int64_t word) { hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x100000001b3ull; };
    for (const Block& block : way.used) {
      mix(block.begin);
      mix(block.end);
      mix(block.last);
    }
    const auto [begin, end] = kept_by_hash_.equal_range(hash);
    if (std::any_of(begin, end, [&](const auto& entry) { return kept[entry.second].used == way.used; })) return true;
    kept_by_hash_.emplace(hash, kept.size());
    return false;
  }

  const Problem& problem_;
  std::size_t k_;
  std::vector<Index> births_;
  std::size_t placed_ = 0;                                        // of them
  std::vector<Way> ways_ = std::vector<Way>(1);                   // best first
  std::vector<BeamChoice> choices_ = std::vector<BeamChoice>(1);  // the first is none
  std::vector<Successor> successors_;
  std::unordered_multimap<std::uint64_t, std::size_t> kept_by_hash_;
};

}  // namespace

Placement beam(const Problem& problem, const PlanOptions& options) {
  return best_so_far(problem, options, [&](Placement& best, const Deadline& deadline) {
    Beam beam(problem, static_cast<std::size_t>(options.get(kBeam[0])));
    try {
      beam.place_all(deadline);
      best = beam.placement();
    } catch (const EndedError&) {
      PlanOptions a_little_more;
      a_little_more.time_limit = kSecondsAlone;
      beam.follow_the_best_alone();
      beam.place_all(Deadline(a_little_more));
      Placement alone = beam.placement();
      if (peak_of(problem, alone.offsets) < peak_of(problem, best.offsets)) best = std::move(alone);
    }
  });
}

}  // namespace memplan
