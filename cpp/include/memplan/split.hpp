// Split: ops of a graph in pieces, so that tensors between them are never whole.
//
//     x ──▶ conv1 ──▶ t ──▶ conv2 ──▶ y            kernels of 3 rows, y of 4 rows, in two pieces:
//
//     conv1/1of2     rows 0 to 2 of t from x           t/1of2  [0 1 2]
//     conv2/1of2     rows 0, 1 of y from rows 0 to 2   y/1of2  [0 1 . .]
//     t/2of2:kept    rows 1, 2 of t move to the front  t       [1 2 .]
//     conv1/2of2     row 3 of t from x                 t/2of2  [1 2 3]
//     conv2/2of2     rows 2, 3 of y from rows 1 to 3   y       [0 1 2 3]
//
// A region is a set of ops, each with one of its loops (loops.hpp). It runs in steps. In each step every op makes those
// rows of its outputs that the step needs, from rows of its inputs. A tensor between two ops of a region holds the rows
// that are still needed, and no others:
//
//   - Rows that a later step reads again are *kept*: they move to the front of the buffer, and new rows are written
//     behind them. Or the op makes them *again*, if the region says so.
//   - What leaves the region is written, part by part, into the whole tensor.
//   - What adds up is added in place.
//   - Views are made anew in each step, over what there is of their bytes.
//   - What is made early is made before the first step, and every piece reads it.
//
// The result is an ordinary graph in which later versions of a buffer overwrite earlier ones.
//
// Complexity: O(visits log visits + ops log ops) for visits of ops of regions, and what Graph takes.
#pragma once

#include <span>
#include <vector>

#include "memplan/errors.hpp"
#include "memplan/graph.hpp"
#include "memplan/rematerialisation.hpp"

namespace memplan {

struct RegionOp {
  Index op = kNone;
  Index loop = 0;      // among the loops of the op
  bool again = false;  // rows that later steps read again are made again; else they are kept

  bool operator==(const RegionOp&) const = default;
};

struct Region {
  std::vector<RegionOp> ops;  // ascending
  Index pieces = 2;           // steps

  bool operator==(const Region&) const = default;
};

// Rows of a tensor of the graph, where they lie in a tensor of the split graph.
struct HeldRows {
  Index tensor = kNone;   // of the split graph; kNone: none of its rows is there yet, and none is read
  bool whole = true;      // it is read or written as it is; else:
  Axes axes = {};         // of the tensor of the graph
  RowRange rows = {};     // of the tensor of the graph, which are read or written
  std::int64_t base = 0;  // the row of the tensor of the graph that lies first
};

// What an op of the split graph does.
struct Piece {
  enum class Does : std::uint8_t { whole, part, early, keep };  // all of an op, iterations of it, ...
  Does does = Does::whole;  // ... what it makes before the first one; or rows move to the front of their buffer
  Index of = kNone;         // the op of the graph; for `keep`, the one that makes the tensor
  Index loop = kNone;
  RowRange iterations = {};
  std::vector<HeldRows> reads = {};   // per input of that op; of `keep`, where the rows were
  std::vector<HeldRows> writes = {};  // per output of that op; of `keep`, where they are now
};

struct SplitGraph {
  Graph graph;
  std::vector<Piece> pieces;     // per op
  std::vector<Index> tensor_of;  // per tensor: the tensor of the graph whose rows it holds
  Bytes kept_bytes = 0;          // that are moved to the front of buffers, together
};

// A region that cannot run in pieces; the message names op and tensor.
struct RegionError : GraphError {
  using GraphError::GraphError;
};

// The graph with the ops of each region in pieces; all other ops are as they were. Ops between those of a region run
// before it or after it. Throws GraphError for what is no region, RegionError for one that cannot be split so: an op without
// that loop, one that reads whole what the region makes by parts or along other axes, one that overwrites its input, a
// tensor without bytes for each row, or an op outside that is needed in the middle; UnsupportedError for graphs with
// several streams, branches or a layout.
SplitGraph split(const Graph& graph, std::span<const Region> regions);

// The same for who only counts: tensors and ops have no names, shapes, kinds and loops, and the graph is not checked.
SplitGraph split_unnamed(const Graph& graph, std::span<const Region> regions);

// What ops of the split graph cost and do if they run again, by what those of the graph do. A part costs its share of
// the iterations, but for what it reads whole, as weights, at `byte` a byte; to move rows costs what the bytes that are
// read and written cost by default.
std::vector<OpFacts> facts_of(const SplitGraph& split, const Graph& graph, std::span<const OpFacts> facts,
                              double byte = 0);

}  // namespace memplan
