// SplitSearch: which regions to split, and into how many pieces, so that the load is within a capacity.
//
// Every op of the graph has a need: the most bytes that are alive while it, or one of its pieces, runs. The search
// looks at the op whose need is highest above the capacity. It grows regions (growth.hpp) from that op, and from the
// ops that make or read the tensors alive there. For each region on the way, it splits the graph and counts
// (split_judge.hpp). It takes the region that leaves the fewest bytes above the capacity, summed over all ops, and goes
// on.
//
//     need  ▲    █                     ▲                     regions that are taken stay, unless a later one
//  capacity ├──█─█─█──────────         ├──────█───────────   takes in one of their ops
//           │▄▆█▆█▆█▆▄                 │▄▆▅▅▅▅█▆▄
//           └──────────▶ op            └──────────▶ op
//
// Tensors between regions stay in blocks if they would not fit whole. Rows are kept. Ops make them again if keeping
// them needs too many bytes, or costs more. Only then may a region run in several passes, which make rows again too.
//
// It is a descent without a guarantee: a capacity that it does not reach may be possible. The same input gives the same
// result, unless the time limit or `stop` ends it.
// Complexity: each region that is looked at takes a split of the graph and its buffers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "split/segments.hpp"
#include "split/split_judge.hpp"

namespace memplan {

class SplitSearch {
 public:
  SplitSearch(const Graph& graph, const StorageOptions& storage, const SplitTerms& terms, std::int64_t work,
              const Deadline& deadline);

  // Within the capacity, or as low as is found; rows are made `again` only if nothing else reaches that.
  SplitState reached(Bytes capacity, bool again);
  // The state without regions that this load does not need, and with the fewest pieces that it allows. With `again`,
  // rows are kept or made again, whichever costs less.
  SplitState with_less(SplitState state, Bytes enough, bool again);

 private:
  // Regions, and the needs of the graph with them.
  struct Found {
    std::vector<Region> regions;
    const Judged* judged = nullptr;  // nullptr: there is nothing
  };

  SplitState whole() { return judge_.stated({}); }
  SplitState descend(SplitState state, Bytes capacity, bool blocks);
  SplitState lowered(SplitState state, Bytes capacity, bool blocks);
  bool ended() const { return judge_.work_left() <= 0 || deadline_.passed(); }
  Found judged(std::vector<Region> regions);
  Found with(const std::vector<Region>& regions, const Region& region);
  std::optional<SplitState> better(const SplitState& state, Index op, Bytes capacity);
  Found in_best_pieces(const std::vector<Region>& regions, const Judged& now, const Region& region, Bytes capacity);
  Found cut(const SplitState& state, const Region& region, Bytes capacity);
  Found grown(const SplitState& state, Index op, Bytes capacity);
  Found with_rows_again(const SplitState& state, Index op, Bytes capacity);
  Found toggled(const std::vector<Region>& regions, std::size_t region, std::size_t op, int makers);
  Found cheaper(const Found& now, Bytes enough);
  Found in_segments(Segments& segments, const std::vector<Region>& others, Index pieces, Bytes capacity, bool blocks);
  Found through_statistics(const SplitState& state, Index op, Bytes capacity);
  Found in_smaller_regions(const Found& now, Bytes enough);
  Found in_halves(const std::vector<Region>& regions, std::size_t cut, std::size_t middle);
  Bytes bytes_between(const std::vector<RegionOp>& ops, std::size_t middle) const;
  Found in_fewer_passes(const Found& now, Bytes enough);
  Found in_blocks(std::vector<Region> regions);
  std::int64_t longest(const Region& region) const;
  const Region& widest(Index op, Index loop, bool passes);
  std::vector<Index> piece_counts(const Region& region) const;
  std::vector<Index> seeds(const SplitState& state, Index op) const;

  const Graph& graph_;
  SplitTerms terms_;
  std::int64_t given_;           // work
  bool inplace_;                 // whether tensors may be written over others
  bool again_ = false;           // whether rows may be made again
  bool blocks_ = true;           // whether tensors between segments may stay in blocks
  bool needs_all_rows_ = false;  // a loop has statistics, or sums
  const Deadline& deadline_;
  SplitJudge judge_;
  std::map<std::tuple<Index, Index, bool>, std::shared_ptr<const Region>> widest_of_;  // by op, loop and passes
  std::map<const Region*, Segments> segments_of_;                                      // by region of `widest_of_`
};

}  // namespace memplan
