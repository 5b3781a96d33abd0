// BandMember: a portfolio for each band (search/bands.hpp), and their plans on each other.
#pragma once

#include "search/bands.hpp"
#include "search/member.hpp"

namespace memplan {

class BandMember : public Member {
 public:
  // `problem` outlives it. `joined`: all buffers of one band conflict with all of the others; then what is proven of
  // the bands is proven of the whole, where all alignments are the same.
  BandMember(const Problem& problem, std::vector<Band> bands, bool joined, std::uint64_t seed, const MakeRounds& make);

  bool search(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override;
  bool is_done(const Incumbent& best) const override;
  bool seeks_proofs() const override { return proves_; }
  std::string_view name() const override { return "bands"; }
  std::vector<Bytes> offsets() const override;
  Bytes lower_bound() const override;
  std::int64_t work() const override;

  // Nothing is lost by planning the bands alone.
  bool is_lossless() const { return proves_; }

 private:
  struct Part {
    Band band;
    std::unique_ptr<Rounds> rounds;
    Bytes alignment;  // of what lies below: a multiple of all in the band
    std::int64_t slice;
  };

  Part* next();
  std::vector<Bytes> bases() const;
  bool has_plan() const;
  Bytes peak() const;

  const Problem& problem_;
  bool proves_;
  std::vector<Part> parts_;
  std::int64_t saved_ = 0;  // work
};

}  // namespace memplan
