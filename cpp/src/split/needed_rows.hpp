// NeededRows: which iterations of loops make something that somebody needs.
//
//     y, an output         0   1   2   3     all of its rows are needed
//     conv, stride 2       │   │   │   │     reads rows 0, 2, 4, 6 of t
//     t                    0 . 2 . 4 . 6 .   the other rows are needed by nobody
//
// An op reads the same along whichever of its loops it is split. So where two loops say different things, it reads no
// more than both of them say.
// Complexity: O(loops x readers x extents).
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
  // Per iteration of a loop of an op: whether it makes something that is needed.
  const std::vector<bool>& iterations(Index op, std::size_t loop) const { return iterations_[at(op)][loop]; }

 private:
  using Some = std::vector<bool>;

  bool any_of(Index tensor) const { return rows(tensor, std::nullopt).front(); }
  Some iterations_of(const Op& op, const Loop& loop) const;
  Some rows(Index tensor, const std::optional<Axes>& axes) const;
  Some rows_read(Index reader, std::size_t loop, Index tensor, const std::optional<Axes>& axes) const;
  std::size_t count(Index tensor, const std::optional<Axes>& axes) const;

  const Links& links_;
  Some is_output_;                             // per tensor
  Some runs_;                                  // per op
  std::vector<std::vector<Some>> iterations_;  // per op and loop
};

}  // namespace memplan
