// Granule search: the portfolio for buffers of one alignment.
//
// Sizes of most tensors are multiples of usual alignments, and a few small ones are not. These few must not cost as
// much time as the last bytes of a hard problem. So the question is asked in two parts:
//
//   1. In whole granules (problem/granules.hpp), the problem is one without alignments. The portfolio plans it. If the
//      problem has no shapes, its optimum is that of the problem, rounded up.
//   2. Then only the tail of the highest buffer is open: less than one granule.
//
// For the second part, the plan is turned upside down. For a peak that is `tail` bytes below a multiple of the granule,
// every buffer that lies highest needs a tail at least as large:
//
//     granules ▲                        ┌──┬─────┐        upside down, it has to lie lowest, and all else has a base
//            3 │ ┌──┐▒▒▒▒▒▒▒            │  │     │        of one granule: the search by valleys decides that (exact)
//            2 │ │  ├─────┐             │  ├─────┘
//            1 │ │  │     │             │  │▒▒▒▒▒▒▒
//            0 └─┴──┴─────┴─▶ step      └──┴───────▶
//
// Complexity: the portfolio's, and a run of the valley search for each tail that is tried. Guarantee: as the portfolio.
#pragma once

#include <cstdint>
#include <vector>

#include "auto/member.hpp"
#include "base/deadline.hpp"
#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"
#include "problem/sections.hpp"
#include "search/search.hpp"

namespace memplan {

class GranuleSearch {
 public:
  // Puts the best placement into `best`, which is a plan at first. `make` makes the portfolios of bands.
  GranuleSearch(const Problem& problem, const PlanOptions& options, Placement& best, MakeRounds make);

  void run(const Deadline& deadline);

 private:
  bool is_enough() const { return peak_ <= options_.enough(bound_); }
  bool is_plain() const;  // without shapes and conflicts
  std::int64_t effort_for_little(std::int64_t effort) const;
  void plan_whole(const Problem& whole, const Deadline& deadline);
  PlanOptions in_whole() const;
  void raise_bound(Bytes bound);
  void offer(std::vector<Bytes> offsets, std::string_view winner);
  void offer_whole(std::span<const Bytes> offsets, std::string_view winner);
  void lower_tails(const Problem& whole, std::int64_t effort, const Deadline& deadline);
  bool put_on_top(const Problem& whole, const Sections& sections, Bytes high, Bytes tail, std::int64_t& left,
                  const Deadline& deadline);
  Decision end_below(Sections& sections, Bytes high, Bytes tail, std::int64_t& left, const Deadline& deadline);
  Bytes tail(Index buffer) const { return align_up(problem_.size(buffer), granule_) - problem_.size(buffer); }

  const Problem& problem_;
  const PlanOptions& options_;
  Placement& best_;
  const MakeRounds make_;
  const Bytes granule_;
  Bytes peak_;
  Bytes bound_;
  std::int64_t work_ = 0;
};

}  // namespace memplan
