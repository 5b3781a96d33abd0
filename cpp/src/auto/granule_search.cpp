#include "auto/granule_search.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "auto/auto.hpp"
#include "auto/portfolio_search.hpp"
#include "base/luby.hpp"
#include "memplan/bounds.hpp"
#include "placing/best_so_far.hpp"
#include "problem/granules.hpp"
#include "problem/sections.hpp"
#include "search/valley/valley_search.hpp"

namespace memplan {

namespace {

constexpr Bytes kLittle = 1000;                        // what one byte in so many is: less than anyone would wait for
constexpr std::int64_t kEffortForLittle = 20'000'000;  // a fraction of a second
constexpr std::int64_t kShapesTakeLonger = 5;          // the same work of searches that serve shapes and conflicts
constexpr std::int64_t kLeastNodes = 256, kNodesPerItem = 2;  // of the shortest run

// Buffers of one granule, one after the other, that cover all sections in which `high` granules are in use; none if
// there are none. May choose among those that `serves`. O(n log n).
template <class Serves>
std::vector<Index> small_cover(const Sections& sections, Bytes high, Serves&& serves) {
  std::vector<Index> full;  // sections
  for (Index s = 0; s < sections.count; ++s)
    if (sections.load[at(s)] == high) full.push_back(s);
  const auto number = [&](Index section) {
    return static_cast<std::size_t>(std::lower_bound(full.begin(), full.end(), section) - full.begin());
  };
  struct Chain {         // that covers the first sections of these
    Index last = kNone;  // its item, which ends first of all such chains' items
    std::size_t before = 0;
  };
  std::vector<Chain> chains(full.size() + 1);
  for (Index x = 0; x < sections.items(); ++x) {  // by where they begin
    const std::size_t begin = number(sections.first[at(x)]), end = number(sections.last[at(x)]);
    if (sections.size[at(x)] != 1 || begin == end || !serves(sections.buffer[at(x)])) continue;
    const Index before = chains[begin].last;
    if (begin > 0 && (before == kNone || sections.last[at(before)] > sections.first[at(x)])) continue;
    const Index other = chains[end].last;
    if (other == kNone || sections.last[at(x)] < sections.last[at(other)]) chains[end] = {x, begin};
  }
  std::vector<Index> cover;
  for (std::size_t k = full.size(); k > 0 && chains[k].last != kNone; k = chains[k].before)
    cover.push_back(sections.buffer[at(chains[k].last)]);
  return cover;
}

}  // namespace

GranuleSearch::GranuleSearch(const Problem& problem, const PlanOptions& options, Placement& best, MakeRounds make)
    : problem_(problem),
      options_(options),
      best_(best),
      make_(std::move(make)),
      granule_(granule_of(problem)),
      peak_(peak_of(problem, best.offsets)),
      bound_(std::max(options.lower_bound, aligned_load(problem))) {
  best_.lower_bound = bound_;
  if (best_.winner.empty()) best_.winner = "first_fit";
}

void GranuleSearch::run(const Deadline& deadline) {
  options_.tell({best_.offsets, peak_, bound_, best_.winner});
  const std::optional<Problem> whole = in_granules(problem_, granule_);
  if (whole && !is_enough()) plan_whole(*whole, deadline);
  if (is_enough() || deadline.passed()) return;
  const std::int64_t effort = effort_of(options_);
  const std::int64_t left = effort == kEndless ? kEndless : std::max<std::int64_t>(effort - work_, 0);
  // Upside down, an offset stays aligned only if any granule will do.
  if (whole && is_plain() && std::ranges::all_of(whole->alignment(), [](Bytes alignment) { return alignment == 1; }))
    return lower_tails(*whole, effort_for_little(left), deadline);
  PlanOptions rest = options_;
  rest.lower_bound = bound_;
  PortfolioSearch(problem_, rest, best_, make_, whole ? effort_for_little(left) : left).run(deadline);
}

bool GranuleSearch::is_plain() const { return problem_.conflicts() == nullptr && !problem_.has_shapes(); }

// Where what is left to gain is little, and nobody said how much that may take.
std::int64_t GranuleSearch::effort_for_little(std::int64_t effort) const {
  const bool is_little = (peak_ - bound_) <= bound_ / kLittle;
  if (!is_little || says_effort(options_)) return effort;
  return std::min(effort, is_plain() ? kEffortForLittle : kEffortForLittle / kShapesTakeLonger);
}

void GranuleSearch::plan_whole(const Problem& whole, const Deadline& deadline) {
  PlanOptions options = in_whole();
  if (options_.capacity && *options_.capacity % granule_ != 0) options.decide = false;  // in one more, a tail may fit
  Placement placement = first_plan(whole, deadline);
  if (!problem_.has_shapes() && peak_of(whole, placement.offsets) > align_up(peak_, granule_) / granule_) {
    for (std::size_t i = 0; i < placement.offsets.size(); ++i) placement.offsets[i] = best_.offsets[i] / granule_;
    placement.winner = best_.winner;
  }
  const auto searched = [&](std::int64_t effort) {
    PortfolioSearch search(whole, options, placement, make_, effort);
    in_time([&] { search.run(deadline); });
    offer_whole(placement.offsets, placement.winner);
    work_ += search.work();
  };
  const std::int64_t effort = effort_of(options_);
  if (!is_plain() && !says_effort(options_)) searched(std::min(effort, kEffortForLittle / kShapesTakeLonger));
  if (const std::int64_t most = effort_for_little(effort); work_ < most && !is_enough()) searched(most - work_);
  if (!problem_.has_shapes()) {
    Bytes most = 0;  // tail
    for (Index i = 0; i < problem_.count(); ++i) most = std::max(most, tail(i));
    raise_bound(placement.lower_bound * granule_ - most);
  }
}

// What is asked of a plan of whole granules.
PlanOptions GranuleSearch::in_whole() const {
  PlanOptions options = options_;
  options.lower_bound = align_up(bound_, granule_) / granule_;
  if (options.capacity) *options.capacity /= granule_;
  options.earlier = nullptr;
  options.warm.clear();
  options.improved = {};
  return options;
}

void GranuleSearch::raise_bound(Bytes bound) { best_.lower_bound = bound_ = std::max(bound_, bound); }

void GranuleSearch::offer(std::vector<Bytes> offsets, std::string_view winner) {
  const Bytes peak = peak_of(problem_, offsets);
  if (peak >= peak_) return;
  peak_ = peak;
  best_.offsets = std::move(offsets);
  best_.winner = winner;
  options_.tell({best_.offsets, peak_, bound_, best_.winner});
}

void GranuleSearch::offer_whole(std::span<const Bytes> offsets, std::string_view winner) {
  std::vector<Bytes> bytes(offsets.begin(), offsets.end());
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] *= problem_.size(static_cast<Index>(i)) > 0 ? granule_ : 0;
  offer(std::move(bytes), winner);
}

// Asks for peaks that end within the last granule of the best plan, the lowest first.
void GranuleSearch::lower_tails(const Problem& whole, std::int64_t effort, const Deadline& deadline) {
  Sections sections(whole, deadline);
  if (sections.covered > kMostCovered) return;
  const Bytes high = align_up(peak_, granule_) / granule_;
  std::vector<Bytes> tails{0};
  for (Index i = 0; i < problem_.count(); ++i) tails.push_back(tail(i));
  std::sort(tails.begin(), tails.end(), std::greater<>());
  tails.erase(std::unique(tails.begin(), tails.end()), tails.end());
  std::int64_t left = effort;
  for (std::size_t k = 0; k < tails.size() && !is_enough() && left > 0;) {
    const Bytes target = high * granule_ - tails[k];
    const std::size_t next = k + 1;
    if (target >= peak_) return;
    if (target < bound_) {
      k = next;
      continue;
    }
    std::int64_t share = left == kEndless ? kEndless : left / 2 + 1;
    if (put_on_top(whole, sections, high, tails[k], share, deadline)) return;
    const Decision decision = end_below(sections, high, tails[k], share, deadline);
    if (decision == Decision::found) return;
    if (decision == Decision::infeasible && next < tails.size()) raise_bound(high * granule_ - tails[next]);
    k = decision == Decision::infeasible ? next : next + (tails.size() - next) / 2;
    if (left != kEndless) left -= left / 2 + 1 - share;
  }
}

// Often a few small buffers, one after the other, can lie highest wherever all granules are in use. Then the others are
// planned in one granule less. `left` is the work that is left.
bool GranuleSearch::put_on_top(const Problem& whole, const Sections& sections, Bytes high, Bytes tail,
                               std::int64_t& left, const Deadline& deadline) {
  const std::vector<Index> top = small_cover(sections, high, [&](Index i) { return this->tail(i) >= tail; });
  if (top.empty()) return false;
  std::vector<bool> is_top(at(problem_.count()), false);
  for (const Index i : top) is_top[at(i)] = true;
  std::vector<Index> others;
  for (Index i = 0; i < problem_.count(); ++i)
    if (!is_top[at(i)]) others.push_back(i);
  const Problem rest = whole.subset(others);
  PlanOptions options = in_whole();
  options.lower_bound = options.capacity.emplace(high - 1);
  Placement placement = first_plan(rest, deadline);
  const std::int64_t most = left == kEndless ? kEndless : left / 2 + 1;
  PortfolioSearch search(rest, options, placement, make_, most);
  in_time([&] { search.run(deadline); });
  if (left != kEndless) left = std::max<std::int64_t>(left - search.work() - 1, 0);
  if (peak_of(rest, placement.offsets) > high - 1) return false;
  std::vector<Bytes> offsets(at(problem_.count()), high - 1);
  for (std::size_t k = 0; k < others.size(); ++k) offsets[at(others[k])] = placement.offsets[k];
  offer_whole(offsets, placement.winner);
  return true;
}

// Whether there is a plan in so many granules, less a tail. If there is, it is offered.
Decision GranuleSearch::end_below(Sections& sections, Bytes high, Bytes tail, std::int64_t& left,
                                  const Deadline& deadline) {
  std::vector<Bytes> lowest;
  for (Index x = 0; x < sections.items(); ++x) lowest.push_back(this->tail(sections.buffer[at(x)]) < tail ? 1 : 0);
  sections.begin_from(std::move(lowest));
  ValleySearch search(sections, options_.seed, deadline);
  Decision decision = Decision::undecided;
  for (std::int64_t number = 0; decision == Decision::undecided && search.work() < left; ++number) {
    const std::int64_t nodes =
        kLeastNodes + kNodesPerItem * sections.items() * luby(static_cast<std::uint64_t>(number) + 1);
    decision = search.run(high, number, {nodes, left, deadline});
    deadline.check();
  }
  if (left != kEndless) left = std::max<std::int64_t>(left - search.work() - 1, 0);
  if (decision != Decision::found) return decision;
  std::vector<Bytes> offsets(at(problem_.count()), 0);
  for (Index x = 0; x < sections.items(); ++x)
    offsets[at(sections.buffer[at(x)])] = high - search.offsets()[at(x)] - sections.size[at(x)];
  offer_whole(offsets, "valley");
  return decision;
}

}  // namespace memplan
