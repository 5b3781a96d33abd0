// Split: ops of a graph run in pieces, so that the tensors between these ops are never whole.
//
//     x ──▶ conv1 ──▶ t ──▶ conv2 ──▶ y            kernels of 3 rows, padding 1; y has 4 rows; 2 pieces
//
//     conv1/1of2     rows 0 to 2 of t from x           t/1of2  [0 1 2]
//     conv2/1of2     rows 0, 1 of y from rows 0 to 2   y/1of2  [0 1 . .]
//     t/2of2:kept    rows 1, 2 of t move to the front  t       [1 2 .]
//     conv1/2of2     row 3 of t from x                 t/2of2  [1 2 3]
//     conv2/2of2     rows 2, 3 of y from rows 1 to 3   y       [0 1 2 3]
//
// A *region* is a set of ops, each with one of its loops (loops.hpp). A region runs in *steps*, one for each piece. In
// a step, each op makes the rows of its outputs that this step needs, from rows of its inputs. A tensor between two ops
// of a region holds only the rows that are still needed:
//
//   - Rows that a later step reads again are *kept*: they move to the front of the buffer, and new rows are written
//     behind them. If RegionOp::again is true, the op makes these rows a second time instead.
//   - A tensor that is read outside of the region is written, piece by piece, into a whole tensor. It is written over a
//     whole tensor of the same shape if the region is the last that reads this, and has read each row before.
//   - If Region::blocks is true, a tensor that only other regions read, by rows, stays in *blocks*, one for each piece. A
//     block is free after its last row was read. So the next region may fill memory while it empties blocks. Rows that
//     lie in several blocks are *gathered* in a buffer before they are read.
//   - If each iteration adds to a sum, the pieces add to one sum in place.
//   - A view is made anew in each step, over the rows that exist in this step.
//   - An *early* output of a loop (loops.hpp) is made before the first step, and every step reads it.
//   - *Statistics* of a loop (loops.hpp) are added up in steps of their own, before the op's first step. Ops that make
//     the rows for these run once more afterwards: the region runs in two or more passes.
//
//   - An op in the middle of a region may run *whole*, once, between two passes: the square root of a variance, or the
//     small layers that weigh channels by their means.
//
// The result is an ordinary graph in which later versions of a buffer overwrite earlier ones.
//
// Complexity: O(visits log visits + ops log ops), and the time to make a Graph. A visit is one op of a region in one
// step.
#pragma once

#include <span>
#include <vector>

#include "memplan/errors.hpp"
#include "memplan/graph.hpp"
#include "memplan/rematerialisation.hpp"
#include "memplan/storage.hpp"

namespace memplan {

struct RegionOp {
  Index op = kNone;
  Index loop = 0;      // its position in the op's loops; kNone: the op runs whole, see above
  bool again = false;  // rows that later steps read again are made again, not kept

  bool operator==(const RegionOp&) const = default;
};

// The loop along which it runs in pieces; one without iterations, if it runs whole.
const Loop& loop_of(const Graph& graph, const RegionOp& one);

struct Region {
  std::vector<RegionOp> ops;  // ascending
  Index pieces = 2;           // steps
  bool blocks = false;        // tensors that it makes for other regions stay in blocks

  bool operator==(const Region&) const = default;
};

// Rows of a tensor of the graph, and their place in a tensor of the split graph. Axes and rows are those of the
// graph's tensor.
struct HeldRows {
  Index tensor = kNone;   // of the split graph; kNone: no row exists yet, and none is read
  bool whole = true;      // all of the tensor is read or written; if false, see below
  Axes axes = {};         // along which rows lie
  RowRange rows = {};     // that are read or written
  std::int64_t base = 0;  // the first row in `tensor`
};

// The task of an op of the split graph.
struct Piece {
  // All of an op; some of its iterations; the part of some iterations in the loop's statistics; early outputs; rows move
  // to the front of their buffer; or rows of a block are copied to a buffer.
  enum class Does : std::uint8_t { whole, part, statistics, early, keep, gather };
  Does does = Does::whole;
  Index of = kNone;  // the op of the graph; for `keep`, the op that makes the rows; for `gather`, that reads them
  Index loop = kNone;
  RowRange iterations = {};
  std::vector<HeldRows> reads = {};   // per input of `of`; for `keep` and `gather`, the old place of the rows
  std::vector<HeldRows> writes = {};  // per output of `of`; for `keep` and `gather`, the new place of the rows
  Index statistics = kNone;           // a tensor of the split graph that is read, or added to, and then made
};

struct SplitGraph {
  Graph graph;
  std::vector<Piece> pieces;     // per op
  std::vector<Index> tensor_of;  // per tensor: the tensor of the graph whose rows it holds; kNone: statistics
  Bytes kept_bytes = 0;          // the sum of bytes that move to the front of buffers
  std::vector<Index> reruns;     // ops of the graph that run in several passes of their region
  std::vector<Index> blocks;     // tensors of the graph that stay in blocks, ascending
};

// The error for a region that cannot run in pieces. The message names op and tensor.
struct RegionError : GraphError {
  using GraphError::GraphError;
};

// The graph with the ops of each region in pieces; all other ops are as they were. Ops between those of a region run
// before it or after it. `storage` says whether tensors may be written over others. Throws GraphError if `regions` are
// invalid, and UnsupportedError for graphs with several streams, branches or a layout. Throws RegionError if a region
// cannot run in pieces, for one of these reasons:
//   - an op has no such loop, or overwrites its input,
//   - an op reads a whole tensor, or rows along other axes, and the region makes this tensor in pieces,
//   - an op that adds to a sum would run in two passes,
//   - the bytes of a tensor cannot be divided by rows,
//   - an op outside of the region reads from the region, and the region needs its result.
SplitGraph split(const Graph& graph, std::span<const Region> regions, const StorageOptions& storage = {});

// The same for searches that only count bytes: tensors and ops have no names, shapes, kinds and loops, and the graph is
// not checked.
SplitGraph split_unnamed(const Graph& graph, std::span<const Region> regions, const StorageOptions& storage = {});

// The facts of each op of the split graph, from the facts of the graph's ops. If a piece has a share of an op's
// iterations, it costs this share of the op's cost. But inputs that each piece reads whole, such as weights, cost
// `byte` for each byte in each piece. Statistics cost as much as the pieces that need them. An op that moves rows costs
// the bytes that it reads and writes. Early outputs cost nothing.
std::vector<OpFacts> facts_of(const SplitGraph& split, const Graph& graph, std::span<const OpFacts> facts,
                              double byte = 0);

}  // namespace memplan
