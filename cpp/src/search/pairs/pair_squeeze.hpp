// PairSqueeze: the optimum of small problems of any kind, by runs of PairSearch between a bound and the best peak.
//
// Buffers that no chain of pairs connects are searched apart. A part is first searched at its bound, where a plan is
// optimal. Then it is searched in the middle between its bound and its best peak. A plan there lowers the peak, and a
// proof that there is none raises the bound. A run that ends undecided is repeated with twice the nodes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "search/pairs/pair_search.hpp"

namespace memplan {

class PairSqueeze : public Search {
 public:
  static constexpr Index kMostBuffers = 4096;             // of a problem
  static constexpr std::size_t kMostInPart = 256;         // buffers
  static constexpr Index kMostItems = 64;                 // of those, buffers that need a search
  static constexpr Bytes kMostBytes = Pairs::kMostBytes;  // of a plan

  // `problem` outlives it; no plan of it peaks below `bound`.
  PairSqueeze(const Problem& problem, Bytes bound, std::uint64_t seed, const Deadline& deadline);
  ~PairSqueeze() override;

  bool step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override;

  // Whether no part is too large.
  bool is_exact() const;

  // Also true if every part is at its bound, or too large.
  bool is_done(Bytes peak) const override;

  std::vector<Bytes> offsets() const override { return offsets_; }
  Bytes lower_bound() const override;
  std::int64_t work() const override { return work_; }

 private:
  struct Part;

  Bytes peak_of(const Part& part, std::span<const Bytes> offsets) const;
  Part* next(Bytes enough);
  void run(Part& part, Bytes enough, std::int64_t work, const Deadline& deadline);

  const Problem& problem_;
  Bytes bound_;
  Bytes step_ = 1;  // between peaks that may be
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<Bytes> offsets_;
  std::int64_t work_ = 0;
};

}  // namespace memplan
