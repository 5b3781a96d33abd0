#include "search/wheel/window_repair.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/luby.hpp"
#include "memplan/occupancy.hpp"
#include "problem/orders.hpp"
#include "search/stacks/squeeze.hpp"
#include "search/wheel/repair.hpp"
#include "search/wheel/squeaky_search.hpp"

namespace memplan {

namespace {

constexpr std::size_t kBuffersPerOut = 64;    // a plan with more out has no few places
constexpr std::size_t kFirstReach = 32;       // births on either side of what is out
constexpr std::size_t kGrowth = 4;            // of a core that failed
constexpr std::int64_t kTurnsPerRepair = 32;  // at least
constexpr std::int64_t kWorkOfCore = 2500;    // per buffer of it
constexpr std::int64_t kStartsOfCore = 4;     // of the squeaky wheel, where valleys fail
constexpr std::int64_t kLooksPerStart = 8;    // its starts count more than they look at
constexpr std::int64_t kWorkOfRepair = 600;   // per buffer of a room
constexpr std::size_t kLeastRooms = 16;       // that the whole could be cut into

struct RepairedWindow {
  Step begin, end;

  bool meets(RepairedWindow other) const { return begin < other.end && other.begin < end; }
  bool contains(RepairedWindow other) const { return begin <= other.begin && other.end <= end; }
  void widen_to(RepairedWindow other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
};

class WindowRepair {
 public:
  WindowRepair(const Problem& problem, std::vector<Bytes>& offsets, Bytes target, std::uint64_t seed,
               std::int64_t& work, const Deadline& deadline)
      : problem_(problem), offsets_(offsets), target_(target), seed_(seed), work_(work), deadline_(deadline) {}

  bool run() {
    const auto is_out = [&](Index i) { return offsets_[at(i)] > target_ - problem_.size(i); };
    births_ = by_birth(problem_);
    for (std::size_t k = 0; k < births_.size(); ++k)
      if (is_out(births_[k])) out_.push_back(k);
    if (out_.size() * kBuffersPerOut > births_.size()) return out_.empty();
    find_last_deaths();
    for (std::size_t reach = kFirstReach; !out_.empty() && work_ > 0; reach *= kGrowth) {
      for (const RepairedWindow& core : cores(reach))
        if (work_ > 0) mend(core);
      std::erase_if(out_, [&](std::size_t k) { return !is_out(births_[k]); });
      if (reach >= births_.size()) break;
    }
    return out_.empty();
  }

 private:
  RepairedWindow life(Index i) const { return {problem_.first(i), problem_.last(i)}; }

  void find_last_deaths() {
    last_death_.reserve(births_.size());
    Step last = std::numeric_limits<Step>::min();
    for (const Index i : births_) last_death_.push_back(last = std::max(last, problem_.last(i)));
  }

  // So many births on either side of each that is out; those that meet are one.
  std::vector<RepairedWindow> cores(std::size_t reach) const {
    std::vector<RepairedWindow> cores;
    for (const std::size_t k : out_) {
      RepairedWindow core = life(births_[k]);
      core.widen_to(life(births_[k - std::min(k, reach)]));
      core.end = std::max(problem_.last(births_[k]), problem_.first(births_[std::min(k + reach, births_.size() - 1)]));
      if (cores.empty() || cores.back().end <= core.begin) {
        cores.push_back(core);
      } else {
        cores.back().widen_to(core);
      }
    }
    return cores;
  }

  // What is alive in the window, by birth.
  std::vector<Index> alive_in(RepairedWindow window) {
    const auto born_before = [&](Step step) {
      return at(
          std::partition_point(births_.begin(), births_.end(), [&](Index i) { return problem_.first(i) < step; }) -
          births_.begin());
    };
    const std::size_t end = born_before(window.end);
    std::size_t begin = born_before(window.begin);
    while (begin > 0 && last_death_[begin - 1] > window.begin) --begin;
    work_ -= static_cast<std::int64_t>((end - begin) / 8);
    deadline_.tick(end - begin);
    std::vector<Index> alive(births_.begin() + static_cast<std::ptrdiff_t>(begin),
                             births_.begin() + static_cast<std::ptrdiff_t>(end));
    std::erase_if(alive, [&](Index i) { return problem_.last(i) <= window.begin; });
    return alive;
  }

  RepairedWindow hull(const std::vector<Index>& buffers) const {
    RepairedWindow hull = life(buffers.front());
    for (const Index i : buffers) hull.widen_to(life(i));
    return hull;
  }

  // Makes the core anew. What conflicts with what is in there may move, and what conflicts with that is fixed.
  void mend(RepairedWindow core) {
    const std::vector<Index> in_core = alive_in(core);
    const RepairedWindow reached = hull(in_core);
    const RepairedWindow room = hull(alive_in(reached));
    std::vector<Index> others = alive_in(room);
    if (others.size() * kLeastRooms > births_.size()) return;
    std::erase_if(others, [&](Index i) { return life(i).meets(core); });
    const auto fixed =
        std::stable_partition(others.begin(), others.end(), [&](Index i) { return !room.contains(life(i)); });
    std::vector<Bytes> offsets;
    if (!place_core(in_core, core, offsets)) return;

    std::vector<Index> buffers = in_core;
    buffers.insert(buffers.end(), others.begin(), others.end());
    const Problem problem = problem_of(buffers, room);
    Occupancy taken(problem);
    for (std::size_t k = 0; k < in_core.size(); ++k) {
      const Index i = static_cast<Index>(k);
      taken.add(problem.first(i), problem.last(i), {offsets[k], offsets[k] + problem.size(i)});
    }
    std::vector<Index> out;
    for (std::size_t k = in_core.size(); k < buffers.size(); ++k) {
      const Index i = static_cast<Index>(k);
      const Bytes offset = offsets_[at(buffers[k])];
      const auto ranges = taken.taken(problem.first(i), problem.last(i));
      const bool free = std::none_of(ranges.begin(), ranges.end(), [&](ByteRange range) {
        return range.begin < offset + problem.size(i) && offset < range.end;
      });
      offsets.push_back(free ? offset : kNowhere);
      if (!free) out.push_back(i);
    }
    if (!repair(problem, in_core.size() + at(fixed - others.begin()), out, offsets)) return;
    for (std::size_t k = 0; k < buffers.size(); ++k) offsets_[at(buffers[k])] = offsets[k];
  }

  // These buffers, in the part of their lives that is in the window.
  Problem problem_of(const std::vector<Index>& buffers, RepairedWindow window) const {
    std::vector<Bytes> size, alignment;
    std::vector<Step> first, last;
    for (const Index i : buffers) {
      size.push_back(problem_.size(i));
      first.push_back(std::max(problem_.first(i), window.begin));
      last.push_back(std::min(problem_.last(i), window.end));
      alignment.push_back(problem_.alignment(i));
    }
    return Problem(std::move(size), std::move(first), std::move(last), std::move(alignment));
  }

  bool place_core(const std::vector<Index>& buffers, RepairedWindow core, std::vector<Bytes>& offsets) {
    const Problem problem = problem_of(buffers, core);
    const Sections sections(problem, deadline_);
    Squeeze squeeze(problem, sections, sections.highest_load(), seed_, deadline_);
    const std::int64_t allowed = std::min(work_, kWorkOfCore * problem.count());
    auto outcome = Decision::undecided;
    while (outcome == Decision::undecided && squeeze.work() < allowed)
      outcome = squeeze.attempt(target_, allowed, deadline_);
    work_ -= squeeze.work();
    offsets = squeeze.offsets();
    if (outcome != Decision::undecided || work_ <= 0) return outcome == Decision::found;
    SqueakySearch wheel(problem, seed_, target_, deadline_);
    wheel.step(kStartsOfCore * SqueakySearch::kWorkPerStart * problem.count(), deadline_);
    work_ -= wheel.work() / kLooksPerStart;
    offsets.assign(wheel.best().begin(), wheel.best().end());
    return wheel.peak() <= target_;
  }

  // Gives a place to what is out; the first buffers are fixed.
  bool repair(const Problem& problem, std::size_t fixed, const std::vector<Index>& out, std::vector<Bytes>& offsets) {
    const SectionLives lives = section_lives(problem, deadline_);
    const std::vector<Rank> ranks = ranks_of(problem, lives, fixed);
    Repair repair(problem, lives, deadline_);
    Chance chance(seed_);
    const std::int64_t allowed = std::min(work_, kWorkOfRepair * problem.count());
    bool done = out.empty();
    for (std::uint64_t run = 1; !done && repair.work() < allowed; ++run) {
      if (run == 1) {
        repair.begin(offsets, out, ranks, target_, Fit::kTightest, deadline_);
      } else {
        repair.begin_again(out, ranks);
      }
      const std::int64_t turns = kTurnsPerRepair * luby(run) + static_cast<std::int64_t>(out.size());
      for (std::int64_t turn = 0; turn < turns && !done && repair.work() < allowed; ++turn) {
        repair.turn(chance, deadline_);
        done = repair.done();
      }
    }
    work_ -= repair.work();
    if (done && !out.empty()) offsets.assign(repair.offsets().begin(), repair.offsets().end());
    return done;
  }

  // By the largest load covered, then the longest, then the largest; what is fixed stands before all.
  std::vector<Rank> ranks_of(const Problem& problem, const SectionLives& lives, std::size_t fixed) const {
    const std::vector<Bytes> covered = load_covered(lives, deadline_);
    const auto key = [&](Index i) {
      return std::array<std::int64_t, 4>{-covered[at(i)], lives.begin[at(i)] - lives.end[at(i)], -problem.size(i), i};
    };
    std::vector<Index> order(problem.size().size() - fixed);
    std::iota(order.begin(), order.end(), static_cast<Index>(fixed));
    std::sort(order.begin(), order.end(), deadline_.ticking([&](Index a, Index b) { return key(a) < key(b); }));
    std::vector<Rank> ranks(problem.size().size(), kFixedRank);
    for (std::size_t k = 0; k < order.size(); ++k) ranks[at(order[k])] = static_cast<Rank>(k) * kRankGap;
    return ranks;
  }

  const Problem& problem_;
  std::vector<Bytes>& offsets_;
  const Bytes target_;
  const std::uint64_t seed_;
  std::int64_t& work_;
  const Deadline& deadline_;
  std::vector<Index> births_;
  std::vector<std::size_t> out_;  // positions there of what ends above the target
  std::vector<Step> last_death_;  // of all born up to there
};

}  // namespace

bool repair_in_windows(const Problem& problem, std::vector<Bytes>& offsets, Bytes target, std::uint64_t seed,
                       std::int64_t& work, const Deadline& deadline) {
  return WindowRepair(problem, offsets, target, seed, work, deadline).run();
}

}  // namespace memplan
