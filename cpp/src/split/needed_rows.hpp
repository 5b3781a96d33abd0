// NeededRows: which iterations of loops make something that somebody needs.
//
//     y, an output         0   1   2   3     all of its rows are needed
//     conv, stride 2       │   │   │   │     reads rows 0, 2, 4, 6 of t
//     t                    0 . 2 . 4 . 6 .   the other rows are needed by nobody
//
// An op reads the same along whichever of its loops it is split. So where two loops say different things, it reads no
// more than both of them say.
// Rows are held as ranges, as an elementwise op has a loop with an iteration for each element.
// Complexity: O(loops x readers x ranges); a loop whose steps leave rows out between windows has a range for each.
#pragma once

#include <optional>
#include <vector>

#include "split/growth.hpp"

namespace memplan {

class NeededRows {
 public:
  explicit NeededRows(const Links& links);

  // Whether an op makes something that is needed, or writes over something.
  bool runs(Index op) const { return runs_[at(op)]; }
  // The iterations of a loop of an op that make something that is needed: ranges that ascend and do not meet.
  const std::vector<RowRange>& iterations(Index op, std::size_t loop) const { return iterations_[at(op)][loop]; }

 private:
  using Some = std::vector<RowRange>;

  bool any_of(Index tensor) const { return !rows(tensor, std::nullopt).empty(); }
  Some iterations_of(const Op& op, const Loop& loop) const;
  Some rows(Index tensor, const std::optional<Axes>& axes) const;
  Some rows_read(Index reader, std::size_t loop, Index tensor, const std::optional<Axes>& axes) const;
  std::int64_t count(Index tensor, const std::optional<Axes>& axes) const;

  const Links& links_;
  std::vector<bool> is_output_;                // per tensor
  std::vector<bool> runs_;                     // per op
  std::vector<std::vector<Some>> iterations_;  // per op and loop
};

}  // namespace memplan
