// Segments: a region that would need many passes, cut into regions that need few. Tensors between two are whole.
//
//     conv1 norm1 conv2 norm2 conv3 norm3 conv4      one region: four passes, conv1 runs four times
//     conv1 norm1 conv2 │ norm2 conv3 norm3 conv4    two: what conv2 makes is whole, conv1 and conv3 run twice
//
// Idea: the cheapest way from the first op to the last over cuts between ops. A segment may be taken if the tensors that
// are whole while it runs, and some rows of those inside, fit. What a segment makes may lie over what it reads last
// (inplace_rows.hpp), or may fill memory as this is freed, if both stay in blocks (split.hpp). It costs what its ops
// cost in all of its passes. What else is alive is not counted, so the caller judges the result, and asks for less if
// need be.
// Complexity: O(cuts^2 * ops) for the costs. At most kMostCuts cuts are looked at: those where fewer bytes lie between
// the two sides than near them.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "memplan/split.hpp"
#include "split/growth.hpp"

namespace memplan {

class Segments {
 public:
  // `inplace`: whether tensors may be written over others.
  Segments(const Links& links, std::span<const OpFacts> facts, std::vector<RegionOp> ops, bool inplace);

  // Whether all ops as one region cost more than each op once: they make statistics, or run twice.
  bool has_passes();
  // Regions of all ops, each in so many pieces, or also in `fewer` if these seem to fit. With `blocks`, tensors between
  // them stay in blocks where they do not seem to fit whole. None if there is no way within the capacity.
  std::vector<Region> cheapest(Bytes capacity, Index pieces, bool fewer, bool blocks);

 private:
  struct Made {
    Index tensor;
    Bytes bytes;
    Bytes window;             // of rows that are kept from each piece to the next
    std::size_t from, until;  // the ops that make it and that read it last; `until` is behind all ops if it leaves
    bool by_rows = false;     // it can stay in blocks
    bool copied = false;      // rows of it that have others beside them are computed apart
  };

  std::vector<RegionOp> ops_of(std::size_t from, std::size_t until) const;
  Bytes kept_of(std::size_t reader, Index t) const;
  bool is_copied(std::size_t maker, Index t) const;
  bool is_gathered(std::size_t reader, Index input) const;
  bool is_padded(std::size_t reader, Index input) const;
  bool may_lie_over(const Made& born, const Made& dying) const;
  bool is_by_rows(std::size_t maker, Index t) const;
  Bytes held(std::size_t from, std::size_t until, Index pieces, bool blocks) const;
  std::vector<bool> left_in_blocks(std::span<const std::size_t> ends, const std::vector<bool>& needed) const;
  bool passes_rows(std::size_t first, std::size_t last, std::size_t begin, std::size_t end) const;
  double cost(std::size_t from, std::size_t until);

  const Links& links_;
  std::span<const OpFacts> facts_;
  std::vector<RegionOp> ops_;
  bool inplace_;
  std::vector<Made> made_;                        // per root that these ops make
  std::unordered_map<Index, std::size_t> place_;  // in `made_`, by root
  std::vector<std::size_t> cuts_;                 // ascending, with both ends
  std::vector<std::vector<double>> cost_;         // per pair of cuts; negative: not known yet
};

// The cost of ops of a region in all passes, without moves and calls; infinite if they cannot run so.
double cost_in_passes(const Graph& graph, std::span<const OpFacts> facts, const std::vector<RegionOp>& ops);

}  // namespace memplan
