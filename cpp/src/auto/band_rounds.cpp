#include "auto/band_rounds.hpp"

#include <optional>

#include "auto/auto.hpp"
#include "auto/band_member.hpp"
#include "auto/portfolio_search.hpp"
#include "placing/best_so_far.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

class BandRounds : public Rounds {
 public:
  BandRounds(const Problem& problem, std::uint64_t seed) : problem_(problem) {
    options_.seed = seed;
    options_.set = {{kPortfolio[0].name, kEndless}};
  }

  void round(std::int64_t slice, const Deadline& deadline) override {
    if (!portfolio_) begin(deadline);
    if (!portfolio_->is_done()) portfolio_->round(slice, deadline);
  }
  bool has_plan() const override { return portfolio_.has_value(); }
  bool is_done() const override { return portfolio_ && portfolio_->is_done(); }
  const std::vector<Bytes>& offsets() const override { return best_.offsets; }
  Bytes peak() const override { return portfolio_->peak(); }
  Bytes lower_bound() const override { return portfolio_->lower_bound(); }
  std::int64_t work() const override { return portfolio_ ? portfolio_->work() : 0; }

 private:
  void begin(const Deadline& deadline) {
    best_ = first_plan(problem_, deadline);
    options_.lower_bound = bound_of_band(problem_, options_, deadline);
    portfolio_.emplace(problem_, options_, best_, rounds_of_band);
    portfolio_->begin(deadline);
  }

  const Problem& problem_;
  PlanOptions options_;
  Placement best_;
  std::optional<PortfolioSearch> portfolio_;
};

}  // namespace

std::unique_ptr<Rounds> rounds_of_band(const Problem& problem, std::uint64_t seed) {
  return std::make_unique<BandRounds>(problem, seed);
}

}  // namespace memplan
