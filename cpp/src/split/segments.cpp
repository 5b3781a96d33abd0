#include "split/segments.hpp"

#include <algorithm>
#include <limits>
#include <ranges>

#include "split/inplace_rows.hpp"
#include "split/region_rows.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostCuts = 64;
constexpr Index kFewest = 4;        // pieces
constexpr Bytes kRoom = 16;         // a part of the capacity that is left free, where fewer pieces would do
constexpr std::size_t kBeside = 8;  // ops to each side, with which a cut is compared
constexpr double kImpossible = std::numeric_limits<double>::infinity();

}  // namespace

double cost_in_passes(const Graph& graph, std::span<const OpFacts> facts, const std::vector<RegionOp>& ops) {
  double cost = 0;
  const Region region{ops, 1};
  try {
    const RegionRows rows(graph, region);
    for (const Index k : rows.reruns)
      if (facts[at(k)].again != Again::same) return kImpossible;
    for (std::size_t r = 0; r < ops.size(); ++r)
      if (rows.runs_whole(r)) cost += facts[at(ops[r].op)].cost;
    for (const Pass& pass : rows.passes)
      for (const Visit& visit : pass.visits) {
        const std::size_t r = at(visit.op);
        const double share = static_cast<double>(visit.iterations.size()) / static_cast<double>(rows.loop(r).extent);
        cost += share * facts[at(ops[r].op)].cost;
      }
  } catch (const RegionError&) {
    return kImpossible;
  }
  return cost;
}

Segments::Segments(const Links& links, std::span<const OpFacts> facts, std::vector<RegionOp> ops, bool inplace)
    : links_(links), facts_(facts), ops_(std::move(ops)), inplace_(inplace) {
  std::unordered_map<Index, std::size_t> place;
  for (std::size_t r = 0; r < ops_.size(); ++r) place.emplace(ops_[r].op, r);
  for (std::size_t r = 0; r < ops_.size(); ++r)
    for (const Index t : links.graph.op(ops_[r].op).outputs) {
      const Index root = links.root[at(t)];
      if (root != t) continue;
      Made made{t, links.graph.tensor(t).bytes, 0, r, r};
      for (const Index shown : links.family[at(root)])
        for (const Index reader : links.readers[at(shown)]) {
          const auto found = place.find(reader);
          made.until = std::max(made.until, found == place.end() ? ops_.size() : found->second);
          if (found != place.end()) made.window = std::max(made.window, kept_of(found->second, shown));
        }
      if (links.stays[at(root)]) made.until = ops_.size();
      made.by_rows = made.until < ops_.size() && is_by_rows(r, t);
      made.copied = is_copied(r, t);
      place_.emplace(t, made_.size());
      made_.push_back(made);
    }
  std::vector<Bytes> between(ops_.size(), 0);
  for (const Made& made : made_)
    for (std::size_t cut = made.from + 1; cut <= made.until && cut < ops_.size(); ++cut) between[cut] += made.bytes;
  const auto share_of_most_near = [&](std::size_t cut) {
    const auto begin = between.begin() + static_cast<std::ptrdiff_t>(cut - std::min(cut, kBeside));
    const auto end = between.begin() + static_cast<std::ptrdiff_t>(std::min(cut + kBeside + 1, between.size()));
    return static_cast<double>(between[cut]) / static_cast<double>(std::max<Bytes>(1, *std::max_element(begin, end)));
  };
  for (std::size_t cut = 1; cut < ops_.size(); ++cut) cuts_.push_back(cut);
  std::ranges::stable_sort(cuts_, {}, share_of_most_near);
  if (cuts_.size() > kMostCuts) cuts_.resize(kMostCuts);
  cuts_.push_back(0);
  cuts_.push_back(ops_.size());
  std::ranges::sort(cuts_);
  cost_.assign(cuts_.size(), std::vector<double>(cuts_.size(), -1));
}

// Bytes of the rows that one iteration reads and the next reads again.
Bytes Segments::kept_of(std::size_t reader, Index t) const {
  const Op& op = links_.graph.op(ops_[reader].op);
  Bytes most = 0;
  for (const LoopRead& read : loop_of(links_.graph, ops_[reader]).reads) {
    if (op.inputs[at(read.input)] != t || read.window <= read.step) continue;
    const std::int64_t rows = rows_of(links_.graph.tensor(t), read.axes);
    if (rows > 0)
      most = std::max(most, links_.graph.tensor(t).bytes / rows * ((read.window - read.step) / read.per + 1));
  }
  return most;
}

bool Segments::is_copied(std::size_t maker, Index t) const {
  const Op& op = links_.graph.op(ops_[maker].op);
  if (!op.pieces_copied || ops_[maker].loop == kNone) return false;
  const auto& writes = loop_of(links_.graph, ops_[maker]).writes;
  return std::ranges::any_of(writes, [&](const LoopWrite& write) {
    return op.outputs[at(write.output)] == t && lie_scattered(links_.graph.tensor(t), write.axes);
  });
}

// Whether the rows that an op reads of an input lie scattered.
bool Segments::is_gathered(std::size_t reader, Index input) const {
  const auto& reads = loop_of(links_.graph, ops_[reader]).reads;
  const auto read = std::ranges::find(reads, input, &LoopRead::input);
  if (read == reads.end()) return false;
  return lie_scattered(links_.graph.tensor(links_.graph.op(ops_[reader].op).inputs[at(input)]), read->axes);
}

// Whether the first rows that it reads get padding.
bool Segments::is_padded(std::size_t reader, Index input) const {
  const auto& reads = loop_of(links_.graph, ops_[reader]).reads;
  const auto read = std::ranges::find(reads, input, &LoopRead::input);
  return read != reads.end() && read->before > 0;
}

// Whether it is made and read by the same rows alone.
bool Segments::is_by_rows(std::size_t maker, Index t) const {
  if (links_.family[at(t)].size() > 1 || ops_[maker].loop == kNone) return false;
  const Op& op = links_.graph.op(ops_[maker].op);
  const auto& writes = loop_of(links_.graph, ops_[maker]).writes;
  const auto write =
      std::ranges::find_if(writes, [&](const LoopWrite& one) { return op.outputs[at(one.output)] == t; });
  if (write == writes.end()) return false;
  return std::ranges::all_of(links_.readers[at(t)], [&](Index k) {
    const auto one = std::ranges::lower_bound(ops_, k, {}, &RegionOp::op);
    if (one == ops_.end() || one->op != k || one->loop == kNone) return false;
    const auto& reads = loop_of(links_.graph, *one).reads;
    const auto& inputs = links_.graph.op(k).inputs;
    return std::ranges::all_of(std::views::iota(std::size_t{0}, inputs.size()), [&](std::size_t i) {
      if (inputs[i] != t) return true;
      const auto read = std::ranges::find(reads, static_cast<Index>(i), &LoopRead::input);
      return read != reads.end() && read->axes == write->axes;
    });
  });
}

// Whether a segment may write what leaves it over what it reads last: an op may read rows where it writes others only if
// the rows that it needs have been read before, by others.
bool Segments::may_lie_over(const Made& born, const Made& dying) const {
  const Graph& graph = links_.graph;
  const Op& maker = graph.op(ops_[born.from].op);
  const bool reads = std::ranges::find(maker.inputs, dying.tensor) != maker.inputs.end();
  const bool permitted = std::ranges::find(maker.inplace, View{born.tensor, dying.tensor, 0}) != maker.inplace.end();
  return inplace_ && (!reads || permitted) && have_same_rows(graph.tensor(born.tensor), graph.tensor(dying.tensor));
}

std::vector<RegionOp> Segments::ops_of(std::size_t from, std::size_t until) const {
  const auto begin = ops_.begin();
  return {begin + static_cast<std::ptrdiff_t>(cuts_[from]), begin + static_cast<std::ptrdiff_t>(cuts_[until])};
}

// While the ops between two cuts run: what is whole, and rows of what is inside. With `blocks`, what comes from the
// segments before is freed while what leaves is made.
Bytes Segments::held(std::size_t from, std::size_t until, Index pieces, bool blocks) const {
  const std::size_t begin = cuts_[from], end = cuts_[until];
  Bytes freed = 0, filled = 0, in_blocks = 0;  // a block of each
  Bytes whole = 0, kept = 0, largest = 0, scratch = 0;
  const auto workspace = [&](std::size_t r) {
    const Op& op = links_.graph.op(ops_[r].op);
    if (ops_[r].loop == kNone || op.workspace == 0) return op.workspace;
    const Loop& loop = loop_of(links_.graph, ops_[r]);
    const std::int64_t size = (loop.extent + pieces - 1) / pieces, first = (loop.extent - size) / 2;
    return workspace_of_piece(links_.graph, op, loop, {first, first + size});
  };
  // Rows that their reader copies: they lie in a buffer which has more of them, or get padding.
  const auto gathered = [&](std::size_t r) {
    Bytes bytes = 0;
    for (const Index i : loop_of(links_.graph, ops_[r]).copied) {
      const Index t = links_.graph.op(ops_[r].op).inputs[at(i)];
      const auto made = place_.find(links_.root[at(t)]);
      const bool inside = made != place_.end() && made_[made->second].from >= begin && made_[made->second].until < end;
      if (is_padded(r, i) || (is_gathered(r, i) && !inside)) bytes += links_.graph.tensor(t).bytes / pieces;
    }
    return bytes;
  };
  std::vector<const Made*> dying;
  for (const Made& made : made_) {
    if (made.from >= end || made.until < begin) continue;
    if (made.copied && made.from >= begin && (made.until >= end || made.window > 0))
      scratch = std::max(scratch, workspace(made.from) + made.bytes / pieces);
    if (blocks && made.by_rows && (made.from < begin) != (made.until >= end)) {
      (made.from < begin ? freed : filled) += made.bytes;
      in_blocks += made.bytes / pieces;
      continue;
    }
    if (made.from < begin && made.until < end) dying.push_back(&made);
    if (made.from >= begin && made.until >= end) {
      const auto over = std::ranges::find_if(dying, [&](const Made* one) { return may_lie_over(made, *one); });
      if (over != dying.end()) {
        dying.erase(over);
        continue;
      }
    }
    if (made.from < begin || made.until >= end)
      whole += made.bytes;
    else if (made.window > 0)
      kept += made.bytes / pieces + made.window;
    else
      largest = std::max(largest, made.bytes / pieces);
  }
  for (std::size_t r = begin; r < end; ++r) scratch = std::max(scratch, workspace(r) + gathered(r));
  return whole + std::max(freed, filled) + in_blocks + kept + largest + scratch;
}

double Segments::cost(std::size_t from, std::size_t until) {
  double& known = cost_[from][until];
  if (known < 0) known = cost_in_passes(links_.graph, facts_, ops_of(from, until));
  return known;
}

bool Segments::has_passes() {
  double once = 0;
  for (const RegionOp& one : ops_) once += facts_[at(one.op)].cost;
  return cost(0, cuts_.size() - 1) > once;
}

std::vector<Region> Segments::cheapest(Bytes capacity, Index pieces, bool fewer, bool blocks) {
  std::vector<double> best(cuts_.size(), kImpossible);
  std::vector<std::size_t> before(cuts_.size(), 0);
  std::vector<bool> needed(cuts_.size(), false);  // blocks: the segment that ends there holds too much else
  best[0] = 0;
  for (std::size_t until = 1; until < cuts_.size(); ++until)
    for (std::size_t from = 0; from < until; ++from) {
      if (best[from] == kImpossible || held(from, until, pieces, blocks) > capacity) continue;
      const double found = best[from] + cost(from, until);
      if (found >= best[until]) continue;
      best[until] = found;
      before[until] = from;
      needed[until] = blocks && held(from, until, pieces, false) > capacity;
    }
  std::vector<Region> regions;
  if (best.back() == kImpossible) return regions;
  std::vector<std::size_t> ends;  // of segments, ascending
  for (std::size_t until = cuts_.size() - 1; until > 0; until = before[until]) ends.push_back(until);
  std::ranges::reverse(ends);
  const std::vector<bool> in_blocks = left_in_blocks(ends, needed);
  for (std::size_t from = 0; const std::size_t until : ends) {
    std::vector<RegionOp> ops = ops_of(from, until);
    const auto runs_whole = [](const RegionOp& one) { return one.loop == kNone; };
    if (!std::ranges::all_of(ops, runs_whole)) {
      Index enough = fewer ? std::min(kFewest, pieces) : pieces;
      while (enough < pieces && held(from, until, enough, in_blocks[until]) > capacity - capacity / kRoom)
        enough = std::min(2 * enough, pieces);
      regions.push_back({std::move(ops), enough, in_blocks[until]});
    }
    from = until;
  }
  return regions;
}

// Per cut, whether the segment that ends there leaves blocks: because it needs this, the segment that reads them, or one
// before, so that it cannot write over what it reads.
std::vector<bool> Segments::left_in_blocks(std::span<const std::size_t> ends, const std::vector<bool>& needed) const {
  std::vector<bool> found = needed;
  const auto for_segments = [&](const auto& use) {
    for (std::size_t from = 0; const std::size_t until : ends) {
      use(cuts_[from], cuts_[until], until);
      from = until;
    }
  };
  for_segments([&](std::size_t begin, std::size_t end, std::size_t reader) {
    if (!needed[reader]) return;
    for_segments([&](std::size_t first, std::size_t last, std::size_t maker) {
      if (last <= begin && passes_rows(first, last, begin, end)) found[maker] = true;
    });
  });
  for_segments([&](std::size_t begin, std::size_t end, std::size_t reader) {
    for_segments([&](std::size_t first, std::size_t last, std::size_t maker) {
      if (last <= begin && found[maker] && passes_rows(first, last, begin, end)) found[reader] = true;
    });
  });
  return found;
}

// Whether the last reader of something that some ops make, and that can stay in blocks, is one of some others.
bool Segments::passes_rows(std::size_t first, std::size_t last, std::size_t begin, std::size_t end) const {
  return std::ranges::any_of(made_, [&](const Made& made) {
    return made.by_rows && made.from >= first && made.from < last && made.until >= begin && made.until < end;
  });
}

}  // namespace memplan
