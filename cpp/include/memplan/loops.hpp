// Loops: the rows along which an op goes while it runs. An op may run in pieces along a loop.
//
//     iteration i reads rows [i * step - before, i * step - before + window) of an input, as far as they exist,
//               and writes rows [i * step, (i + 1) * step) of an output, as far as they exist
//
//     conv, kernel 3, padding 1      x  0 1 2 3 4 5       iteration 2 reads rows 1, 2, 3: step 1, window 3, before 1
//                                       └─┬─┘
//                                    y  0 1 2 3 4 5       and writes row 2: step 1
//
// Rows lie along an axis of a tensor's shape, or along consecutive axes that are taken together. If a loop does not
// list an input, every iteration reads the whole input. Iterations are independent, except that several may add to one
// output, and that all may need statistics. A loop is a claim of the caller about an op. An op may have several loops,
// and is split along one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

// Consecutive axes [first, last] of a shape, counted as one axis.
struct Axes {
  Index first = 0;
  Index last = 0;

  bool operator==(const Axes&) const = default;
};

// Rows or iterations [begin, end).
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool empty() const { return begin >= end; }
  std::int64_t size() const { return empty() ? 0 : end - begin; }
  bool operator==(const RowRange&) const = default;
};

// `step`, `window` and `before` are numbers of rows, multiplied by `per`. For example, a resize by 2 has a step of half
// a row: step 1, per 2. If a part of a row is read, the row is read.
struct LoopRead {
  Index input = kNone;  // its position among the inputs of the op
  Axes axes = {};
  std::int64_t step = 1;
  std::int64_t window = 1;
  std::int64_t before = 0;
  std::int64_t per = 1;

  bool operator==(const LoopRead&) const = default;
};

struct LoopWrite {
  Index output = kNone;  // its position among the outputs of the op
  Axes axes = {};
  std::int64_t step = 1;

  bool operator==(const LoopWrite&) const = default;
};

// Numbers over all rows of some inputs, such as means or the largest elements. Every iteration needs them, so they are
// made before the first one. They can be made part by part: from some iterations, and the numbers until then.
struct Statistics {
  std::vector<Index> inputs;  // positions in the op; each iteration reads other rows of those that it reads by rows
  Bytes bytes = 0;

  bool operator==(const Statistics&) const = default;
};

// An output that is made before the first iteration. It depends only on `inputs`, which are read whole, and on the
// statistics of its loop.
struct EarlyOutput {
  Index output = kNone;
  std::vector<Index> inputs;

  bool operator==(const EarlyOutput&) const = default;
};

struct Loop {
  std::int64_t extent = 0;  // iterations
  std::vector<LoopRead> reads = {};
  std::vector<LoopWrite> writes = {};
  std::vector<Index> sums = {};  // outputs to which each iteration adds, by position
  std::vector<EarlyOutput> early = {};
  std::optional<Statistics> statistics = {};
  Bytes workspace = 0;             // of the op's, what a piece needs whole; of the rest it needs its share
  std::vector<Index> copied = {};  // inputs of which a piece copies rows that lie scattered, by position

  bool operator==(const Loop&) const = default;
};

// The rows of an input that `iterations` read. The input has `rows` rows. Empty if they read none.
RowRange rows_read(const LoopRead& read, RowRange iterations, std::int64_t rows);

// The rows of an output that `iterations` write. The output has `rows` rows.
RowRange rows_written(const LoopWrite& write, RowRange iterations, std::int64_t rows);

// Why the loop is wrong for an op with so many inputs and outputs. Empty if it is right.
std::string wrong_loop(const Loop& loop, std::size_t inputs, std::size_t outputs);

}  // namespace memplan
