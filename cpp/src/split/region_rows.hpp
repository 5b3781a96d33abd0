// RegionRows: which iterations the ops of a region run in each of its steps, and which rows they need for that.
//
// Ops whose results nobody in the region reads by rows run equal parts of their loops in the steps. All others run, in
// each step, the iterations that make what is read of their outputs.
//
//     step        0        1        2
//     conv2    0 1      2 3      4 5        equal parts
//     conv1    0 1 2    3 4      5          conv2 reads rows 0 to 2, 1 to 4, 3 to 5; rows 1 and 2, 3 and 4 are kept
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "memplan/split.hpp"

namespace memplan {

// A tensor that a region makes by rows.
struct MadeByRows {
  Index maker = kNone;   // position among the ops of the region
  Index output = kNone;  // among those of the maker
  Axes axes = {};
  std::int64_t rows = 0;
  bool leaves = false;            // something outside reads it, or the caller gets it
  std::vector<RowRange> read;     // per step: rows that ops of the region read, together; empty if none
  std::vector<RowRange> written;  // per step
};

struct RegionRows {
  RegionRows(const Graph& graph, const Region& region);

  const Graph& graph;
  const Region& region;
  std::vector<bool> is_view;                      // per op of the region: its outputs are views of what it reads
  std::vector<bool> is_before;                    // per op: a view of what is there before the region runs
  std::vector<std::vector<RowRange>> iterations;  // per op and step
  std::unordered_map<Index, MadeByRows> made;     // by tensor
  std::unordered_map<Index, Index> root;          // of views that the region makes
  std::unordered_map<Index, Index> position;      // of ops in the region
  std::vector<Index> sums;                        // tensors to which the region adds

  const Op& op(std::size_t r) const { return graph.op(region.ops[r].op); }
  const Loop& loop(std::size_t r) const { return op(r).loops[at(region.ops[r].loop)]; }
  // The row of a view that shows a row of what it is a view of. Throws GraphError if it begins between two.
  std::int64_t row_of_view(std::size_t r, std::int64_t row) const;

 private:
  void check_op(std::size_t r);
  void add_outputs(std::size_t r);
  void find_leaving();
  void leave(Index t);
  void find_iterations(std::size_t r);
  void note_reads(std::size_t r);
  [[noreturn]] void refuse(std::size_t r, const std::string& why) const;
};

}  // namespace memplan
