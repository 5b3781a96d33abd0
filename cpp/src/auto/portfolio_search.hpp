// PortfolioSearch: the rounds of the portfolio (auto/auto.cpp), in which its members take turns.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "auto/member.hpp"
#include "base/deadline.hpp"
#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"
#include "problem/sections.hpp"

namespace memplan {

inline constexpr std::int64_t kMostCovered = 2'000'000'000;  // pairs of section and buffer: the least cost of a dive

// Whether the caller said how much effort or time a search may take; and how much effort it may take.
bool says_effort(const PlanOptions& options);
std::int64_t effort_of(const PlanOptions& options);

class PortfolioSearch {
 public:
  // Puts the best placement into `best`, which is that of first_plan at first. `make` makes the portfolios of bands.
  // The effort is that of the options, and at most `most`.
  PortfolioSearch(const Problem& problem, const PlanOptions& options, Placement& best, MakeRounds make,
                  std::int64_t most = kEndless);

  void run(const Deadline& deadline);

  // The work before the rounds.
  void begin(const Deadline& deadline);

  // Every member works for a slice.
  void round(std::int64_t slice, const Deadline& deadline);

  // Whether nothing better is to be expected, or the effort is spent.
  bool is_done() const;
  Bytes peak() const { return peak_; }
  Bytes lower_bound() const { return bound_; }
  std::int64_t work() const { return work_; }

 private:
  // Who takes part.
  void offer_beginnings(const Deadline& deadline);
  void exchange(const Deadline& deadline);
  void mend(const Deadline& deadline);
  void gather(const Deadline& deadline);
  bool add_lossless_bands(const Deadline& deadline);
  void add_likely_bands(const Deadline& deadline);
  void lay_out_sections(const Deadline& deadline);
  void add_pairs(const Deadline& deadline);
  void add_general();
  void add_valley(std::uint64_t seed, std::int64_t at_bound);
  void limit_effort();
  bool may_be_bands() const;
  bool is_general() const { return problem_.conflicts() != nullptr || problem_.has_shapes(); }
  bool is_exact() const { return exact_ || (sections_ && !problem_.has_shapes()); }
  bool has_long_lives() const;

  // Their turns.
  bool search(const Member& member, std::int64_t slice, const Deadline& deadline) const;
  void side_by_side(std::size_t begin, std::size_t end, std::int64_t slice, std::vector<bool>& better,
                    const Deadline& deadline);
  std::int64_t share(const Member& member, std::int64_t slice) const;
  bool ends_the_search(const Member& member, bool better) const;
  bool proves(const Member& member) const;
  void merge(std::size_t done, const std::vector<bool>& better);
  void note_winner();

  // The best plan.
  void offer(std::string_view member, std::vector<Bytes> offsets);
  void keep(std::string_view member, std::vector<Bytes> offsets);
  void tell() const { options_.tell({best_.offsets, peak_, bound_, best_.winner}); }
  void raise_bound(Bytes bound) { best_.lower_bound = bound_ = std::max(bound_, bound); }
  Bytes enough() const { return options_.enough(bound_); }
  bool is_refuted(Bytes bound) const;
  bool is_over(const Deadline& deadline) const { return is_done() || deadline.passed(); }

  const Problem& problem_;
  const PlanOptions& options_;
  const MakeRounds make_;
  Placement& best_;
  Bytes peak_;  // of it
  Bytes bound_;
  std::int64_t effort_;
  bool given_;          // whether the caller said how much effort or time it may take
  bool exact_ = false;  // by pairs
  bool began_ = false;
  std::int64_t work_ = 0;
  std::map<std::string_view, int>
      lag_;  // per kind that found nothing while others did, how often its slices are halved
  std::optional<Problem> plain_;
  std::optional<Sections> sections_;
  std::vector<Member> members_;
};

}  // namespace memplan
