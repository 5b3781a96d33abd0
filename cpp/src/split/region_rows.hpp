// RegionRows: the order in which the ops of a region run their iterations, and the rows that these need.
//
// An op is *driven* if no op of the region reads its results by rows: in each of `pieces` steps, it runs an equal part
// of its loop. All others are *pulled*: before an op runs some iterations, exactly the rows that these read are made.
// So rows wait as shortly as possible:
//
//     conv2 0 1      is to run; it reads rows 0 to 2 of t
//       conv1 0 1 2  makes them
//     conv2 2 3      reads rows 1 to 4
//       conv1 3 4    makes the missing rows; rows 1 and 2 were kept
//
// Steps end at the same rows of all loops whose extents are multiples of the least one, if they are about equal then:
// else ops would wait for rows between, as the tokens of half a sample.
//
// A *visit* is one run of some iterations. No visit runs many more of them than a step's share of the loop.
//
// If an op needs something whole that the region makes, such as a sum, or statistics of rows (loops.hpp), the region runs
// in *passes*, each of which goes through all rows:
//
//     pass 0   conv1   rows of t, for the statistics of the norm; t is never whole
//     pass 1   conv1   rows of t again    norm   rows of u    conv2   rows of y
//
// A pass makes only those rows that lead to its own sums, statistics, and tensors that leave the region.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "memplan/split.hpp"

namespace memplan {

// Rows that a visit reads or writes.
struct RowsAt {
  Index visit = 0;
  RowRange rows = {};
};

// A tensor that a region makes by rows.
struct MadeByRows {
  Index maker = kNone;  // position among the ops of the region
  Axes axes = {};
  std::int64_t rows = 0;
  bool leaves = false;  // something outside reads it, or the caller gets it
};

// When one pass reads and writes the rows of such a tensor.
struct RowUses {
  std::vector<RowsAt> read;        // by ops of the region
  std::vector<RowsAt> written;     // by its maker
  std::vector<std::int64_t> from;  // per entry of `read`: the first row that it or a later one reads

  // The first row that is read at this visit or later; the largest int64 if none is.
  std::int64_t needed_from(Index visit) const;
  // The rows that a visit writes.
  RowRange written_at(Index visit) const;
  // The first row that is still needed, of these rows and of all rows written before.
  std::int64_t first_held(Index visit) const;
  // Rows for which a buffer has to have room from a visit on, as long as some are kept from each visit to the next.
  std::int64_t room_from(Index visit) const;

 private:
  std::vector<RowsAt>::const_iterator written_from(Index visit) const;
};

struct Visit {
  Index op = kNone;  // position among the ops of the region
  RowRange iterations = {};
  bool statistics = false;  // it only makes the part of these iterations in the statistics of the op's loop
};

struct Pass {
  std::vector<Visit> visits;                // in the order in which they run
  std::unordered_map<Index, RowUses> uses;  // by tensor of `made`
};

class RegionRows {
 public:
  RegionRows(const Graph& graph, const Region& region);

  const Graph& graph;
  const Region& region;
  std::vector<Pass> passes;
  std::vector<Index> pass;             // per op of the region: the first pass in which it can run
  std::vector<Index> statistics_pass;  // per op: that makes its statistics; kNone: nothing made by rows is in them
  std::vector<Index> reruns;           // ops of the graph that several passes run, ascending; no views
  std::vector<bool> is_view;           // per op of the region: its outputs are views of its inputs
  std::vector<bool> is_before;         // per op: a view of a tensor made before the region runs
  std::unordered_map<Index, MadeByRows> made;  // by tensor
  std::unordered_map<Index, Index> root;       // of views that the region makes
  std::unordered_map<Index, Index> position;   // of ops in the region
  // By tensor of sums, early outputs and ops that run whole: the pass from which it is whole.
  std::unordered_map<Index, Index> whole_from;

  const Op& op(std::size_t r) const { return graph.op(region.ops[r].op); }
  const Loop& loop(std::size_t r) const { return loop_of(graph, region.ops[r]); }
  bool runs_whole(std::size_t r) const { return region.ops[r].loop == kNone; }
  // The row of a view that shows a row of the viewed tensor. Throws GraphError if the row begins between two rows of
  // the view.
  std::int64_t row_of_view(std::size_t r, std::int64_t row) const;

 private:
  void check_op(std::size_t r);
  void check_whole(std::size_t r);
  void add_outputs(std::size_t r);
  void find_leaving();
  void leave(Index t);
  bool has_parts(std::size_t r) const;
  bool is_whole_in(Index t, Index number) const;
  void find_base();
  std::int64_t end_of_step(std::size_t r, Index step) const;
  void find_passes();
  void make_pass(Index number, bool is_last);
  template <class Use>
  void for_rows_read(std::size_t r, bool statistics, const Use& use) const;
  void run_until(std::size_t r, std::int64_t end, bool statistics = false);
  void visit(std::size_t r, RowRange iterations, bool statistics = false);
  void pull(std::size_t r, RowRange iterations, bool statistics = false);
  void pull(Index t, RowRange rows);
  bool reads_from(std::size_t reader, std::size_t maker) const;
  bool is_there(std::size_t r, RowRange iterations) const;
  [[noreturn]] void refuse(std::size_t r, const std::string& why) const;

  // Of all passes until now, per op:
  std::vector<bool> is_read_;     // by rows, in the region
  std::vector<Index> last_pass_;  // that ran it; kNone: none
  // Of the pass that is being made, the statistics of ops behind all ops:
  std::vector<std::int64_t> done_;  // iterations, per op that keeps its rows
  std::vector<Index> last_visit_;   // per op
  Index number_ = 0;
  std::int64_t base_ = 0;  // the least extent, at whose iterations steps end; 0: there is none
};

// Whether rows along these axes of a tensor lie scattered: each in several places of its memory.
bool lie_scattered(const Tensor& tensor, const Axes& axes);

// The workspace of some iterations of an op: what each piece needs whole, and a share of the rest. The share is the
// largest of any rows: windows read beyond what they write.
Bytes workspace_of_piece(const Graph& graph, const Op& op, const Loop& loop, RowRange iterations);

}  // namespace memplan
