#include "split/split_search.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "split/segments.hpp"

namespace memplan {

namespace {

constexpr Index kFirstPieces = 16;       // in which a region is split while it grows
constexpr int kFruitless = 10;           // tensors that a region takes in without being better, until it stops growing
constexpr std::size_t kSeedTensors = 2;  // whose ops a region grows from, besides the op itself
constexpr std::int64_t kPartOfMore = 3;  // of the work, to make rows again, and to do with less
constexpr int kHardOps = 4;              // ops whose need no region lowers, until the search ends
constexpr std::size_t kMakers = 3;       // ops that make rows again together, one after another
constexpr int kSegmentTargets = 4;       // capacities of segments that are tried
constexpr double kMuchDearer = 2;        // costs of segments in more pieces, with which no more are tried
constexpr double kCheaper = 0.99;        // as a share of such costs: not in vain
constexpr int kInVain = 1;               // times that pieces are doubled without that
constexpr std::size_t kCuts = 16;        // of regions that are looked at, for a cheaper state
constexpr int kLowerings = 10;           // capacities that are tried for the least load

// Fewer bytes above the capacity; among equals fewer ops, or less cost if ops run again.
bool is_better(const Judged& a, const Judged& b, Bytes capacity) {
  const Bytes x = a.above(capacity), y = b.above(capacity);
  if (x != y) return x < y;
  return a.reruns || b.reruns ? a.cost < b.cost : a.ops < b.ops;
}

bool has(const Region& region, Index op) {
  return std::any_of(region.ops.begin(), region.ops.end(), [&](const RegionOp& one) { return one.op == op; });
}

bool share_op(const Region& a, const Region& b) {
  return std::any_of(a.ops.begin(), a.ops.end(), [&](const RegionOp& one) {
    const auto found = std::lower_bound(b.ops.begin(), b.ops.end(), one.op,
                                        [](const RegionOp& other, Index op) { return other.op < op; });
    return found != b.ops.end() && found->op == one.op;
  });
}

std::vector<Region> without(const std::vector<Region>& regions, const Region& region) {
  std::vector<Region> others;
  for (const Region& other : regions)
    if (!share_op(other, region)) others.push_back(other);
  return others;
}

}  // namespace

SplitSearch::SplitSearch(const Graph& graph, const StorageOptions& storage, const SplitTerms& terms, std::int64_t work,
                         const Deadline& deadline)
    : graph_(graph),
      terms_(terms),
      given_(work),
      inplace_(storage.inplace),
      deadline_(deadline),
      judge_(graph, storage, terms, work) {
  for (const Op& op : graph.ops())
    for (const Loop& loop : op.loops)
      needs_all_rows_ = needs_all_rows_ || loop.statistics.has_value() || !loop.sums.empty();
}

SplitSearch::Found SplitSearch::judged(std::vector<Region> regions) {
  std::sort(regions.begin(), regions.end(),
            [](const Region& a, const Region& b) { return a.ops.front().op < b.ops.front().op; });
  const Judged* judged = judge_.judged(regions);
  if (judged != nullptr && judged->reruns && !again_) judged = nullptr;
  return {std::move(regions), judged};
}

// With one more region, which takes the place of those that share an op with it.
SplitSearch::Found SplitSearch::with(const std::vector<Region>& regions, const Region& region) {
  std::vector<Region> now = without(regions, region);
  now.push_back(region);
  return judged(std::move(now));
}

// Extents of loops, their halves, quarters and so on: then parts are equal.
std::vector<Index> SplitSearch::piece_counts(const Region& region) const {
  std::set<Index> counts;
  for (const RegionOp& one : region.ops)
    for (std::int64_t extent = loop_of(graph_, one).extent; extent > 1; extent = (extent + 1) / 2)
      if (extent <= terms_.max_pieces) counts.insert(static_cast<Index>(extent));
  return {counts.begin(), counts.end()};
}

std::vector<Index> SplitSearch::seeds(const SplitState& state, Index op) const {
  const Links& links = judge_.links();
  std::vector<Index> found{op};
  const auto add = [&](Index k) {
    if (k != kNone && std::find(found.begin(), found.end(), k) == found.end()) found.push_back(k);
  };
  const std::vector<Index>& alive = state.at_most[at(op)];
  for (std::size_t i = 0; i < std::min(kSeedTensors, alive.size()); ++i) {
    add(links.maker[at(alive[i])]);
    for (const Index t : links.family[at(alive[i])])
      for (const Index k : links.readers[at(t)]) add(k);
  }
  return found;
}

std::optional<SplitState> SplitSearch::better(const SplitState& state, Index op, Bytes capacity) {
  Found best;
  // A region that is there already, in more pieces.
  const auto old =
      std::find_if(state.regions.begin(), state.regions.end(), [&](const Region& one) { return has(one, op); });
  if (old != state.regions.end()) {
    best = in_best_pieces(state.regions, state.judged, *old, capacity);
    if (best.judged == nullptr) best = cut(state, *old, capacity);
  }
  if (best.judged == nullptr) best = grown(state, op, capacity);
  if (best.judged == nullptr && blocks_) {
    const Found blocks = in_blocks(state.regions);
    if (blocks.judged != nullptr && is_better(*blocks.judged, state.judged, capacity)) best = blocks;
  }
  if (best.judged == nullptr && again_) best = with_rows_again(state, op, capacity);
  if (best.judged == nullptr) return std::nullopt;
  return judge_.stated(best.regions);
}

std::int64_t SplitSearch::longest(const Region& region) const {
  std::int64_t most = 0;
  for (const RegionOp& one : region.ops) most = std::max(most, loop_of(graph_, one).extent);
  return most;
}

// All that can be reached from a loop of an op: samples of a batch, or rows of pictures, through the whole network.
const Region& SplitSearch::widest(Index op, Index loop, bool passes) {
  const auto known = widest_of_.find({op, loop, passes});
  if (known != widest_of_.end()) return *known->second;
  Growth growth(judge_.links(), op, loop, passes);
  while (!deadline_.passed() && growth.grow()) {
  }
  const auto region = std::make_shared<const Region>(growth.region(kFirstPieces));
  for (const RegionOp& one : region->ops) widest_of_.emplace(std::tuple(one.op, one.loop, passes), region);
  return *region;
}

// With a region that grows from the op, or from what is alive there.
SplitSearch::Found SplitSearch::grown(const SplitState& state, Index op, Bytes capacity) {
  Found best;
  Region region;
  std::set<std::vector<std::pair<Index, Index>>> seen;
  const Bytes above = state.judged.above(capacity);
  for (const Index seed : seeds(state, op))
    for (std::size_t l = 0; l < graph_.op(seed).loops.size(); ++l) {
      if (!graph_.op(seed).aliases.empty() || !graph_.op(seed).overwrites.empty()) continue;
      const auto consider = [&](Region now) {
        for (const Region& old : state.regions)
          if (share_op(old, now)) now.pieces = std::max(now.pieces, old.pieces);
        now.pieces = static_cast<Index>(std::min<std::int64_t>({longest(now), terms_.max_pieces, now.pieces}));
        std::vector<std::pair<Index, Index>> key;
        for (const RegionOp& one : now.ops) key.emplace_back(one.op, one.loop);
        if (!seen.insert(std::move(key)).second) return false;
        Found found = with(state.regions, now);
        if (found.judged == nullptr || found.judged->above(capacity) >= above) return false;
        if (!is_better(*found.judged, best.judged != nullptr ? *best.judged : state.judged, capacity)) return false;
        best = std::move(found);
        region = std::move(now);
        return true;
      };
      Growth growth(judge_.links(), seed, static_cast<Index>(l), false);
      for (int fruitless = 0; fruitless < kFruitless && !ended() && growth.grow(); ++fruitless)
        if (consider(growth.region(kFirstPieces))) fruitless = 0;
      if (!ended()) consider(widest(seed, static_cast<Index>(l), false));
    }
  if (again_ && needs_all_rows_ && (best.judged == nullptr || best.judged->load > capacity)) {
    Found in_passes = through_statistics(state, op, capacity);
    if (in_passes.judged != nullptr &&
        is_better(*in_passes.judged, best.judged ? *best.judged : state.judged, capacity))
      return in_passes;
  }
  if (best.judged == nullptr) return best;
  Found more = in_best_pieces(best.regions, *best.judged, region, capacity);
  return more.judged != nullptr ? more : best;
}

// With all that can be reached from the op in segments, which run in passes.
SplitSearch::Found SplitSearch::through_statistics(const SplitState& state, Index op, Bytes capacity) {
  Found best;
  std::set<std::vector<std::pair<Index, Index>>> seen;
  for (const Index seed : seeds(state, op))
    for (std::size_t l = 0; l < graph_.op(seed).loops.size(); ++l) {
      if (!graph_.op(seed).aliases.empty() || !graph_.op(seed).overwrites.empty()) continue;
      const Region& region = widest(seed, static_cast<Index>(l), true);
      std::vector<std::pair<Index, Index>> key;
      for (const RegionOp& one : region.ops) key.emplace_back(one.op, one.loop);
      if (!seen.insert(std::move(key)).second) continue;
      const std::vector<Region> others = without(state.regions, region);
      Segments& segments =
          segments_of_.try_emplace(&region, judge_.links(), terms_.facts, region.ops, inplace_).first->second;
      if (!segments.has_passes()) continue;
      const auto most = static_cast<Index>(std::min<std::int64_t>(longest(region), terms_.max_pieces));
      for (const bool blocks : {false, true}) {
        if (blocks && !blocks_) break;
        // More pieces hold fewer rows, so that fewer ops run again, but call more kernels.
        double least = std::numeric_limits<double>::infinity();
        int in_vain = 0;
        for (Index pieces = std::min(kFirstPieces, most); !ended(); pieces = std::min(2 * pieces, most)) {
          const Found found = in_segments(segments, others, pieces, capacity, blocks);
          if (found.judged == nullptr && (!found.regions.empty() || pieces == most)) break;
          if (found.judged == nullptr) continue;
          const bool fits = found.judged->load <= capacity;
          if (is_better(*found.judged, best.judged != nullptr ? *best.judged : state.judged, capacity)) best = found;
          if (pieces == most || (fits && found.judged->cost > kMuchDearer * least)) break;
          in_vain = fits && found.judged->cost > kCheaper * least ? in_vain + 1 : 0;
          if (in_vain > kInVain) break;
          if (fits) least = std::min(least, found.judged->cost);
        }
      }
    }
  return best;
}

// The cheapest segments, in so many pieces, that are found to fit; or those that hold the least. No regions if none can
// fit, and not judged if they cannot run.
SplitSearch::Found SplitSearch::in_segments(Segments& segments, const std::vector<Region>& others, Index pieces,
                                            Bytes capacity, bool blocks) {
  Found best;
  Bytes target = capacity;
  for (int asked = 0; asked < kSegmentTargets && target > 0 && !ended(); ++asked) {
    Bytes over = 0;
    for (const bool fewer : {true, false}) {
      std::vector<Region> regions = segments.cheapest(target, pieces, fewer, blocks);
      if (regions.empty()) return best;
      regions.insert(regions.end(), others.begin(), others.end());
      Found found = judged(std::move(regions));
      if (found.judged == nullptr) return best.judged != nullptr ? best : found;
      over = found.judged->load - capacity;
      if (best.judged == nullptr || found.judged->load < best.judged->load) best = std::move(found);
      if (over <= 0) return best;
    }
    target -= std::min(target, over);
  }
  return best;
}

// Two regions instead of the one: what lies between them is whole, and each holds fewer rows at once.
SplitSearch::Found SplitSearch::cut(const SplitState& state, const Region& region, Bytes capacity) {
  Found best;
  const std::vector<Region> others = without(state.regions, region);
  for (auto middle = region.ops.begin() + 1; middle < region.ops.end() && !ended(); ++middle) {
    std::vector<Region> regions = others;
    regions.push_back({{region.ops.begin(), middle}, region.pieces});
    regions.push_back({{middle, region.ops.end()}, region.pieces});
    Found found = judged(std::move(regions));
    if (found.judged == nullptr) continue;
    if (is_better(*found.judged, best.judged != nullptr ? *best.judged : state.judged, capacity))
      best = std::move(found);
  }
  return best;
}

// The region in that many pieces that leave least bytes above the capacity; nothing if none is better than now.
SplitSearch::Found SplitSearch::in_best_pieces(const std::vector<Region>& regions, const Judged& now,
                                               const Region& region, Bytes capacity) {
  Found best;
  for (const Index pieces : piece_counts(region)) {
    if (ended()) break;
    if (pieces == region.pieces) continue;
    Region other = region;
    other.pieces = pieces;
    Found found = with(regions, other);
    if (found.judged == nullptr) continue;
    if (is_better(*found.judged, best.judged != nullptr ? *best.judged : now, capacity)) best = std::move(found);
  }
  return best;
}

// An op of a region makes its rows again, or keeps them from now on, and so do some ops before it, each the one that
// makes most of what the next reads: if it alone made rows again, theirs would be kept instead. Nothing if one cannot.
SplitSearch::Found SplitSearch::toggled(const std::vector<Region>& regions, std::size_t region, std::size_t op,
                                        int makers) {
  std::vector<Region> now = regions;
  std::vector<RegionOp>& ops = now[region].ops;
  const bool again = !ops[op].again;
  for (auto one = ops.begin() + static_cast<std::ptrdiff_t>(op);; --makers) {
    const Op& made = graph_.op(one->op);
    if (terms_.facts[at(one->op)].again != Again::same || !made.aliases.empty() || one->again == again ||
        one->loop == kNone)
      return {};
    one->again = again;
    if (makers == 0) return judged(std::move(now));
    auto before = ops.end();
    Bytes most = 0;
    for (const LoopRead& read : made.loops[at(one->loop)].reads) {
      const Index t = made.inputs[at(read.input)];
      const auto maker = std::find_if(ops.begin(), ops.end(),
                                      [&](const RegionOp& other) { return other.op == judge_.links().maker[at(t)]; });
      if (maker == ops.end() || graph_.tensor(t).bytes <= most) continue;
      most = graph_.tensor(t).bytes;
      before = maker;
    }
    if (before == ops.end()) return {};
    one = before;
  }
}

// The region of the op with rows that are made again, by the op that lowers most for its cost.
SplitSearch::Found SplitSearch::with_rows_again(const SplitState& state, Index op, Bytes capacity) {
  Found best;
  double most = 0;
  const Bytes now = state.judged.above(capacity);
  for (std::size_t r = 0; r < state.regions.size(); ++r) {
    const std::vector<RegionOp>& ops = state.regions[r].ops;
    if (!has(state.regions[r], op)) continue;
    for (std::size_t i = 0; i < ops.size() * kMakers && !ended(); ++i) {
      if (ops[i / kMakers].again) continue;
      Found found = toggled(state.regions, r, i / kMakers, static_cast<int>(i % kMakers));
      if (found.judged == nullptr) continue;
      const Bytes less = now - found.judged->above(capacity);
      const double worth = static_cast<double>(less) / std::max(1.0, found.judged->cost - state.judged.cost);
      if (less <= 0 || worth <= most) continue;
      most = worth;
      best = std::move(found);
    }
  }
  return best;
}

// With rows made again that were kept, or the other way round, where that costs less and suffices.
SplitSearch::Found SplitSearch::cheaper(const Found& now, Bytes enough) {
  Found best = now;
  for (std::size_t r = 0; r < now.regions.size(); ++r)
    for (std::size_t i = 0; i < now.regions[r].ops.size() * kMakers && !ended(); ++i) {
      Found found = toggled(best.regions, r, i / kMakers, static_cast<int>(i % kMakers));
      if (found.judged == nullptr || found.judged->load > enough || found.judged->cost >= best.judged->cost) continue;
      best = std::move(found);
    }
  return best;
}

// With a region that runs in passes cut in two, of which each has fewer passes, where that costs less and suffices. The
// tensors between the two are whole. Cheap cuts are looked at first.
SplitSearch::Found SplitSearch::in_fewer_passes(const Found& now, Bytes enough) {
  struct Halves {
    double cost;
    std::size_t region, middle;
  };
  const auto cost_of = [&](const std::vector<RegionOp>& ops) { return cost_in_passes(graph_, terms_.facts, ops); };
  std::vector<Halves> cuts;
  for (std::size_t r = 0; r < now.regions.size(); ++r) {
    const std::vector<RegionOp>& ops = now.regions[r].ops;
    const double uncut = cost_of(ops);
    for (std::size_t middle = 1; middle < ops.size(); ++middle) {
      const auto here = ops.begin() + static_cast<std::ptrdiff_t>(middle);
      const double cost = cost_of({ops.begin(), here}) + cost_of({here, ops.end()}) - uncut;
      if (cost < 0 && bytes_between(ops, middle) <= enough) cuts.push_back({cost, r, middle});
    }
  }
  std::ranges::stable_sort(cuts, {}, &Halves::cost);
  if (cuts.size() > kCuts) cuts.resize(kCuts);
  for (const Halves& cut : cuts) {
    if (ended()) break;
    Found found = in_halves(now.regions, cut.region, cut.middle);
    if (found.judged != nullptr && found.judged->load > enough) found = in_blocks(std::move(found.regions));
    if (found.judged != nullptr && found.judged->load <= enough && found.judged->cost < now.judged->cost) return found;
  }
  return now;
}

// With a region cut in two where that suffices and takes fewer ops: windows of the second half then reach for no rows of
// the first. The tensors between the two are whole. Cuts with fewer bytes between are looked at first.
SplitSearch::Found SplitSearch::in_smaller_regions(const Found& now, Bytes enough) {
  struct Halves {
    Bytes between;
    std::size_t region, middle;
  };
  std::vector<Halves> cuts;
  for (std::size_t r = 0; r < now.regions.size(); ++r)
    for (std::size_t middle = 1; middle < now.regions[r].ops.size(); ++middle)
      if (const Bytes between = bytes_between(now.regions[r].ops, middle); between <= enough)
        cuts.push_back({between, r, middle});
  std::ranges::stable_sort(cuts, {}, &Halves::between);
  if (cuts.size() > kCuts) cuts.resize(kCuts);
  Found best = now;
  for (const Halves& cut : cuts) {
    if (ended()) break;
    Found found = in_halves(now.regions, cut.region, cut.middle);
    if (found.judged == nullptr || found.judged->load > enough || found.judged->cost > now.judged->cost) continue;
    if (found.judged->ops < best.judged->ops) best = std::move(found);
  }
  return best;
}

// The regions, and all tensors between them that can stay in blocks do.
SplitSearch::Found SplitSearch::in_blocks(std::vector<Region> regions) {
  for (Region& region : regions) region.blocks = true;
  return judged(std::move(regions));
}

SplitSearch::Found SplitSearch::in_halves(const std::vector<Region>& regions, std::size_t cut, std::size_t middle) {
  const Region& region = regions[cut];
  const auto here = region.ops.begin() + static_cast<std::ptrdiff_t>(middle);
  std::vector<Region> now = without(regions, region);
  now.push_back({{region.ops.begin(), here}, region.pieces, region.blocks});
  now.push_back({{here, region.ops.end()}, region.pieces, region.blocks});
  return judged(std::move(now));
}

// Of tensors that the first ops make and the others read.
Bytes SplitSearch::bytes_between(const std::vector<RegionOp>& ops, std::size_t middle) const {
  const Links& links = judge_.links();
  std::set<Index> roots;
  for (std::size_t r = middle; r < ops.size(); ++r)
    for (const Index t : graph_.op(ops[r].op).inputs) {
      const Index root = links.root[at(t)];
      const Index maker = links.maker[at(root)];
      if (maker >= ops.front().op && maker < ops[middle].op) roots.insert(root);
    }
  Bytes bytes = 0;
  for (const Index root : roots) bytes += graph_.tensor(root).bytes;
  return bytes;
}

// Goes on from a state until the load is within the capacity, or nothing more is found.
SplitState SplitSearch::descend(SplitState state, Bytes capacity, bool blocks) {
  blocks_ = blocks;
  std::set<Index> hard;
  while (state.judged.load > capacity && !ended()) {
    const std::vector<Bytes>& needs = state.judged.needs;
    Index worst = kNone;
    for (Index k = 0; k < graph_.op_count(); ++k)
      if (needs[at(k)] > capacity && !hard.contains(k) && (worst == kNone || needs[at(k)] > needs[at(worst)]))
        worst = k;
    if (worst == kNone || hard.size() >= kHardOps) break;
    if (std::optional<SplitState> next = better(state, worst, capacity))
      state = std::move(*next);
    else
      hard.insert(worst);
  }
  return state;
}

// As low as is found, but not lower than the capacity: between what is reached and what is not, targets are halved. A
// low target takes other regions from the beginning than from what was reached before, so both are tried.
SplitState SplitSearch::lowered(SplitState state, Bytes capacity, bool blocks) {
  Bytes refused = capacity - 1;
  for (int round = 0; round < kLowerings && !ended() && state.judged.load > capacity; ++round) {
    const Bytes load = state.judged.load;
    if (load - refused <= load / 100) break;
    const Bytes target = std::max(capacity, refused + (load - refused) / 2);
    SplitState next = descend(state, target, blocks);
    if (next.judged.load > target) {
      SplitState direct = descend(whole(), target, blocks);
      if (direct.judged.load < next.judged.load) next = std::move(direct);
    }
    if (next.judged.load < load) state = std::move(next);
    if (state.judged.load > target) refused = target;
  }
  return state;
}

SplitState SplitSearch::reached(Bytes capacity, bool again) {
  SplitState best = whole();
  const auto take = [&](SplitState found) {
    if (found.judged.load < best.judged.load) best = std::move(found);
    return best.judged.load <= capacity;
  };
  if (take(best)) return best;
  if (capacity > 0 && take(descend(whole(), capacity, true))) return best;
  again_ = again;
  for (const bool blocks : {true, false}) {   // without, it comes to other regions
    if (again) judge_.give_at_least(given_);  // what was tried in vain without that
    if (capacity > 0 && again && take(descend(whole(), capacity, blocks))) return best;
    if (take(lowered(whole(), capacity, blocks)) || (capacity > 0 && take(lowered(best, 0, blocks)))) break;
  }
  again_ = false;
  if (!again) return best;
  SplitState kept = descend(whole(), best.judged.load, true);
  return kept.judged.load <= best.judged.load ? kept : best;
}

SplitState SplitSearch::with_less(SplitState state, Bytes enough, bool again) {
  judge_.give_at_least(given_ / kPartOfMore);
  again_ = again || state.judged.reruns;
  Found now = judged(state.regions);
  const auto take = [&](std::vector<Region> regions) {
    Found found = judged(std::move(regions));
    const bool suffices = found.judged != nullptr && found.judged->load <= enough;
    if (suffices) now = std::move(found);
    return suffices;
  };
  for (std::size_t i = 0; i < now.regions.size() && !ended();) {
    std::vector<Region> others = now.regions;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (!take(std::move(others))) ++i;
  }
  // Many pieces make the rest slow, so those that are plainly too many go first.
  for (bool coarser = true; coarser && !ended();) {
    coarser = false;
    for (std::size_t i = 0; i < now.regions.size() && !ended(); ++i) {
      std::vector<Region> halved = now.regions;
      halved[i].pieces /= 2;
      if (now.regions[i].pieces > kFirstPieces && take(std::move(halved))) coarser = true;
    }
  }
  judge_.give_at_least(given_ / kPartOfMore);
  for (double cost = now.judged->cost + 1; now.judged->reruns && now.judged->cost < cost && !ended();) {
    cost = now.judged->cost;
    now = in_fewer_passes(now, enough);
  }
  for (Index ops = now.judged->ops + 1; now.judged->ops < ops && !ended();) {
    ops = now.judged->ops;
    now = in_smaller_regions(now, enough);
  }
  for (std::size_t i = 0; i < now.regions.size() && !ended(); ++i) {
    std::vector<Region> joined = now.regions;
    joined[i].blocks = false;
    if (now.regions[i].blocks) take(std::move(joined));
  }
  judge_.give_at_least(given_ / kPartOfMore);
  for (std::size_t i = 0; i < now.regions.size(); ++i) {
    const std::vector<Index> counts = piece_counts(now.regions[i]);
    auto low = counts.begin(), high = std::ranges::lower_bound(counts, now.regions[i].pieces);
    while (low < high && !ended()) {  // as if more pieces never needed more bytes
      const auto middle = low + (high - low) / 2;
      std::vector<Region> fewer = now.regions;
      fewer[i].pieces = *middle;
      if (take(std::move(fewer)))
        high = middle;
      else
        low = middle + 1;
    }
  }
  for (double cost = now.judged->cost + 1; again && now.judged->cost < cost && !ended();) {
    cost = now.judged->cost;
    now = cheaper(now, enough);
  }
  again_ = false;
  return judge_.stated(now.regions);
}

}  // namespace memplan
