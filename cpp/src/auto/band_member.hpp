// BandMember: a portfolio for each band (auto/bands.hpp), and their plans on each other, or beside each other.
#pragma once

#include "auto/bands.hpp"
#include "auto/member.hpp"

namespace memplan {

// Bytes that all plans of a band need, by its heaviest clique as far as a little work finds it.
Bytes bound_of_band(const Problem& band, const PlanOptions& options, const Deadline& deadline);

class BandMember : public Search {
 public:
  // How the bands relate to each other.
  enum class Bands {
    separate,  // no buffer of a band conflicts with a buffer of another band
    joined,    // all buffers of a band conflict with all buffers of the others
    likely,    // anything
  };

  // `problem` outlives it. Bounds of separate bands hold for the whole. Bounds of joined bands do if all alignments are
  // the same.
  BandMember(const Problem& problem, std::vector<Band> bands, Bands are, std::uint64_t seed, const MakeRounds& make);

  bool step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override;
  bool is_done(Bytes peak) const override;
  std::vector<Bytes> offsets() const override;
  Bytes lower_bound() const override;
  std::int64_t work() const override;

  // Whether nothing is lost by planning the bands alone.
  bool is_lossless() const { return proves_; }

 private:
  struct Part {
    Band band;
    std::unique_ptr<Rounds> rounds;
    Bytes alignment;  // of what lies below: a multiple of all in the band
  };

  const Part* next() const;
  std::vector<Bytes> bases() const;
  bool has_plan() const;
  Bytes peak() const;

  const Problem& problem_;
  Bands are_;
  bool proves_;
  std::vector<Part> parts_;
  std::vector<std::int64_t> slices_;  // per part
  std::int64_t saved_ = 0;            // work
};

}  // namespace memplan
