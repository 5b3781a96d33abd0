#include "split/split_search.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "memplan/bounds.hpp"
#include "memplan/buffers.hpp"
#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr Index kFirstPieces = 16;       // in which a region is split while it grows
constexpr int kFruitless = 10;           // tensors that a region takes in without being better, until it stops growing
constexpr std::size_t kSeedTensors = 2;  // whose ops a region grows from, besides the op itself
constexpr std::int64_t kPartOfLess = 3;  // of the work, to do with less
constexpr int kHardOps = 4;              // ops whose need no region lowers, until the search ends

Bytes above(const std::vector<Bytes>& needs, Bytes capacity) {
  Bytes sum = 0;
  for (const Bytes need : needs) sum = saturated_add(sum, std::max<Bytes>(0, need - capacity));
  return sum;
}

std::size_t op_count(const SplitState& state) { return state.split->pieces.size(); }

// Fewer bytes above the capacity; among equals fewer ops.
bool is_better(const SplitState& a, const SplitState& b, Bytes capacity) {
  const Bytes x = above(a.needs, capacity), y = above(b.needs, capacity);
  return x != y ? x < y : op_count(a) < op_count(b);
}

bool share_op(const Region& a, const Region& b) {
  return std::any_of(a.ops.begin(), a.ops.end(), [&](const RegionOp& one) {
    const auto found = std::lower_bound(b.ops.begin(), b.ops.end(), one.op,
                                        [](const RegionOp& other, Index op) { return other.op < op; });
    return found != b.ops.end() && found->op == one.op;
  });
}

// Of each step, the bytes that are alive.
std::vector<Bytes> alive_at(const Problem& problem, Index steps) {
  const LoadCurve curve = load_curve(problem);
  std::vector<Bytes> alive(at(steps), 0);
  for (std::size_t i = 0; i < curve.step.size(); ++i) {
    const Step end = i + 1 < curve.step.size() ? curve.step[i + 1] : steps;
    for (Step step = std::max<Step>(curve.step[i], 0); step < std::min<Step>(end, steps); ++step)
      alive[at(step)] = curve.bytes[i];
  }
  return alive;
}

}  // namespace

SplitSearch::SplitSearch(const Graph& graph, const StorageOptions& storage, Index max_pieces, std::int64_t work,
                         const Deadline& deadline)
    : graph_(graph),
      storage_(storage),
      max_pieces_(max_pieces),
      work_(work),
      given_(work),
      deadline_(deadline),
      links_(graph) {}

SplitState SplitSearch::whole() const {
  SplitSearch once(graph_, storage_, max_pieces_, 1, deadline_);
  return *once.stated({});
}

std::optional<SplitState> SplitSearch::stated(std::vector<Region> regions) {
  try {
    auto made = std::make_shared<const SplitGraph>(memplan::split(graph_, regions));
    const SplitGraph& split = *made;
    const Buffers buffers = buffers_of(split.graph, storage_);
    const Index steps = split.graph.op_count();
    work_ -= steps;
    const std::vector<Bytes> alive = alive_at(buffers.problem, steps);
    std::vector<Bytes> needs(graph_.ops().size(), 0);
    std::vector<Index> worst(graph_.ops().size(), kNone);  // per op: the step of its need
    for (Index k = 0; k < steps; ++k) {
      const Index of = split.pieces[at(k)].of;
      if (worst[at(of)] != kNone && alive[at(k)] <= needs[at(of)]) continue;
      needs[at(of)] = alive[at(k)];
      worst[at(of)] = k;
    }
    const Bytes load = alive.empty() ? 0 : *std::max_element(alive.begin(), alive.end());
    SplitState state{std::move(regions), made, std::move(needs), {}, load};
    // Who is alive where the most is needed; only the highest ops are looked at.
    state.at_most.resize(graph_.ops().size());
    for (Index of = 0; of < graph_.op_count(); ++of) {
      const Index step = worst[at(of)];
      if (step == kNone || state.needs[at(of)] < load / 2) continue;
      std::set<Index> seen;
      for (Index t = 0; t < state.split->graph.tensor_count(); ++t) {
        const Index b = buffers.buffer_of_tensor[at(t)];
        if (b == kNone || buffers.problem.first()[at(b)] > step || buffers.problem.last()[at(b)] <= step) continue;
        seen.insert(links_.root[at(state.split->tensor_of[at(t)])]);
      }
      std::vector<Index>& alive_there = state.at_most[at(of)];
      alive_there.assign(seen.begin(), seen.end());
      std::stable_sort(alive_there.begin(), alive_there.end(),
                       [&](Index a, Index b) { return graph_.tensor(a).bytes > graph_.tensor(b).bytes; });
    }
    return state;
  } catch (const GraphError&) {
    work_ -= graph_.op_count();
    return std::nullopt;
  }
}

// With one more region, which takes the place of those that share an op with it.
std::optional<SplitState> SplitSearch::with(const SplitState& state, const Region& region) {
  std::vector<Region> regions;
  for (const Region& other : state.regions) {
    if (!share_op(other, region)) regions.push_back(other);
  }
  regions.push_back(region);
  return stated(std::move(regions));
}

// Extents of loops, their halves, quarters and so on: then parts are equal.
std::vector<Index> SplitSearch::piece_counts(const Region& region) const {
  std::set<Index> counts;
  for (const RegionOp& one : region.ops)
    for (std::int64_t extent = graph_.op(one.op).loops[at(one.loop)].extent; extent > 1; extent = (extent + 1) / 2)
      if (extent <= max_pieces_) counts.insert(static_cast<Index>(extent));
  return {counts.begin(), counts.end()};
}

std::vector<Index> SplitSearch::seeds(const SplitState& state, Index op) const {
  std::vector<Index> found{op};
  const auto add = [&](Index k) {
    if (k != kNone && std::find(found.begin(), found.end(), k) == found.end()) found.push_back(k);
  };
  const std::vector<Index>& alive = state.at_most[at(op)];
  for (std::size_t i = 0; i < std::min(kSeedTensors, alive.size()); ++i) {
    add(links_.maker[at(alive[i])]);
    for (const Index t : links_.family[at(alive[i])])
      for (const Index k : links_.readers[at(t)]) add(k);
  }
  return found;
}

std::optional<SplitState> SplitSearch::better(const SplitState& state, Index op, Bytes capacity) {
  std::optional<SplitState> best;
  Region region;
  // A region that is there already, in more pieces.
  for (const Region& old : state.regions) {
    if (std::none_of(old.ops.begin(), old.ops.end(), [&](const RegionOp& one) { return one.op == op; })) continue;
    best = in_best_pieces(state, old, capacity);
    if (!best) best = cut(state, old, capacity);
    if (best) return best;
  }
  std::set<std::vector<std::pair<Index, Index>>> seen;
  for (const Index seed : seeds(state, op))
    for (std::size_t l = 0; l < graph_.op(seed).loops.size(); ++l) {
      if (!graph_.op(seed).aliases.empty() || !graph_.op(seed).overwrites.empty()) continue;
      Growth growth(links_, seed, static_cast<Index>(l));
      for (int fruitless = 0; fruitless < kFruitless && !ended() && growth.grow(); ++fruitless) {
        Region now = growth.region(kFirstPieces);
        for (const Region& old : state.regions)
          if (share_op(old, now)) now.pieces = std::max(now.pieces, old.pieces);
        now.pieces = static_cast<Index>(std::min<std::int64_t>({growth.longest(), max_pieces_, now.pieces}));
        std::vector<std::pair<Index, Index>> key;
        for (const RegionOp& one : now.ops) key.emplace_back(one.op, one.loop);
        if (!seen.insert(std::move(key)).second) continue;
        std::optional<SplitState> found = with(state, now);
        if (!found || !is_better(*found, best ? *best : state, capacity)) continue;
        if (above(found->needs, capacity) >= above(state.needs, capacity)) continue;
        best = std::move(found);
        region = now;
        fruitless = 0;
      }
    }
  if (!best) return std::nullopt;
  if (std::optional<SplitState> more = in_best_pieces(*best, region, capacity)) best = std::move(more);
  return best;
}

// Two regions instead of the one: what lies between them is whole, and each holds fewer rows at once.
std::optional<SplitState> SplitSearch::cut(const SplitState& state, const Region& region, Bytes capacity) {
  std::optional<SplitState> best;
  std::vector<Region> others;
  for (const Region& other : state.regions)
    if (!share_op(other, region)) others.push_back(other);
  for (auto middle = region.ops.begin() + 1; middle < region.ops.end() && !ended(); ++middle) {
    std::vector<Region> regions = others;
    regions.push_back({{region.ops.begin(), middle}, region.pieces});
    regions.push_back({{middle, region.ops.end()}, region.pieces});
    std::optional<SplitState> found = stated(std::move(regions));
    if (found && is_better(*found, best ? *best : state, capacity)) best = std::move(found);
  }
  return best;
}

// The region in that many pieces that leave least bytes above the capacity; no value if none is better than the state.
std::optional<SplitState> SplitSearch::in_best_pieces(const SplitState& state, const Region& region, Bytes capacity) {
  std::optional<SplitState> best;
  for (const Index pieces : piece_counts(region)) {
    if (ended()) break;
    if (pieces == region.pieces) continue;
    Region now = region;
    now.pieces = pieces;
    std::optional<SplitState> found = with(state, now);
    if (found && is_better(*found, best ? *best : state, capacity)) best = std::move(found);
  }
  return best;
}

SplitState SplitSearch::descend(SplitState state, Bytes capacity) {
  std::set<Index> hard;
  while (state.load > capacity && !ended()) {
    Index worst = kNone;
    for (Index k = 0; k < graph_.op_count(); ++k)
      if (state.needs[at(k)] > capacity && !hard.contains(k) &&
          (worst == kNone || state.needs[at(k)] > state.needs[at(worst)]))
        worst = k;
    if (worst == kNone || hard.size() >= kHardOps) break;
    if (std::optional<SplitState> next = better(state, worst, capacity))
      state = std::move(*next);
    else
      hard.insert(worst);
  }
  return state;
}

SplitState SplitSearch::with_less(SplitState state, Bytes enough) {
  work_ = std::max(work_, given_ / kPartOfLess);
  for (std::size_t i = 0; i < state.regions.size() && !ended();) {
    std::vector<Region> others = state.regions;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    std::optional<SplitState> found = stated(others);
    if (found && found->load <= enough) {
      state = std::move(*found);
      continue;
    }
    for (const Index pieces : piece_counts(state.regions[i])) {
      if (pieces >= state.regions[i].pieces || ended()) break;
      std::vector<Region> fewer = state.regions;
      fewer[i].pieces = pieces;
      found = stated(std::move(fewer));
      if (!found || found->load > enough) continue;
      state = std::move(*found);
      break;
    }
    ++i;
  }
  return state;
}

}  // namespace memplan
