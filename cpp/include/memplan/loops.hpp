// Loops: along which rows an op goes while it runs, and so how it may run in pieces.
//
//     iteration i reads rows [i * step - before, i * step - before + window) of an input, as far as they exist,
//               and writes rows [i * step, (i + 1) * step) of an output, as far as they exist
//
//     conv, kernel 3, padding 1      x  0 1 2 3 4 5       iteration 2 reads rows 1, 2, 3: step 1, window 3, before 1
//                                       └─┬─┘
//                                    y  0 1 2 3 4 5       and writes row 2: step 1
//
// Rows lie along an axis of a tensor's shape, or along consecutive axes that are taken together. What a loop does not
// list is read whole by every iteration. Iterations are independent, but for outputs to which each of them adds.
// It is a statement of the caller about an op; an op may have several loops, and is split along one of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

// Consecutive axes of a shape, as one.
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

// `step`, `window` and `before` are numbers of rows, times `per`: a resize by 2 has a step of half a row. Rows that are
// read in part are read.
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

// An output that is made before the first iteration, of these inputs alone, which are read whole.
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

  bool operator==(const Loop&) const = default;
};

// Rows of an input that these iterations read, of so many that it has; empty if there are none.
RowRange rows_read(const LoopRead& read, RowRange iterations, std::int64_t rows);

// Rows of an output that these iterations write, of so many that it has.
RowRange rows_written(const LoopWrite& write, RowRange iterations, std::int64_t rows);

// Why the loop cannot be one of an op with so many inputs and outputs; empty if it can.
std::string wrong_loop(const Loop& loop, std::size_t inputs, std::size_t outputs);

}  // namespace memplan
