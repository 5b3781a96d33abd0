// Members: the searches that take turns in the portfolio. A search takes memory, so it is made at its first use.
#pragma once

#include <optional>
#include <vector>

#include "search/ejection/ejection_search.hpp"
#include "search/orders/order_search.hpp"
#include "search/pairs/pair_squeeze.hpp"
#include "search/stacks/squeeze.hpp"
#include "search/wheel/squeaky_search.hpp"

namespace memplan {

class ValleyMember : public Search {
 public:
  // Saves its slices up until they allow `least` of work, so that a single run does not take all the time.
  ValleyMember(const Problem& problem, const Sections& sections, std::uint64_t seed, std::int64_t at_bound,
               std::int64_t least)
      : problem_(problem), sections_(sections), seed_(seed), at_bound_(at_bound), least_(least) {}

  bool step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override {
    saved_ += work;
    if (saved_ < least_) return false;
    if (!squeeze_) squeeze_.emplace(problem_, sections_, sections_.highest_load(), seed_, deadline, at_bound_);
    bool found = false;
    while (!found && saved_ > 0 && squeeze_->lower_bound() < best.peak && !deadline.passed()) {
      const std::int64_t before = squeeze_->work();
      found = enough > squeeze_->lower_bound() ? squeeze_->attempt(enough, kEndless, deadline) == Decision::found
                                               : squeeze_->step(best.peak, kEndless, deadline);
      saved_ -= squeeze_->work() - before + kPerRun;
    }
    return found;
  }
  std::vector<Bytes> offsets() const override { return squeeze_->offsets(); }
  Bytes lower_bound() const override { return squeeze_ ? squeeze_->lower_bound() : 0; }
  std::int64_t work() const override { return squeeze_ ? squeeze_->work() : 0; }

 private:
  const Problem& problem_;
  const Sections& sections_;
  const std::uint64_t seed_;
  const std::int64_t at_bound_, least_;
  static constexpr std::int64_t kPerRun = 1000;  // work of a run that ends at once
  std::int64_t saved_ = 0;
  std::optional<Squeeze> squeeze_;  // made when it is used: it takes memory
};

class WheelMember : public Search {
 public:
  WheelMember(const Problem& problem, Bytes bound, std::uint64_t seed)
      : problem_(problem), bound_(bound), seed_(seed) {}

  bool step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override {
    if (!wheel_) wheel_.emplace(problem_, seed_, bound_, deadline);
    const std::int64_t alone = problem_.has_shapes() ? kAlone * problem_.count() : 0;
    const bool is_alone = wheel_->work() < alone;
    if (!is_alone) wheel_->offer(best.offsets);
    const bool better = wheel_->step(std::max(looks(work), is_alone ? alone / kAloneSlices : 0), deadline, enough);
    return better && wheel_->peak() < best.peak;
  }
  bool is_done(Bytes peak) const override { return wheel_ && wheel_->bound() >= peak; }
  std::vector<Bytes> offsets() const override { return {wheel_->best().begin(), wheel_->best().end()}; }
  std::int64_t work() const override {
    if (!wheel_) return 0;
    return problem_.has_shapes() ? wheel_->work() / kLooksPerWork : kWorkPerLook * wheel_->work();
  }

 private:
  // It counts buffers looked at. A look takes longer than a step of the valley search, and less than a step of the
  // searches that serve shapes.
  static constexpr std::int64_t kWorkPerLook = 3, kLooksPerWork = 5;
  // Looks per buffer. With shapes, the bound may be far below the best peak. Then the orders leave so much out that
  // they would be given up beside a plan, though the plans that they lead to are often better.
  static constexpr std::int64_t kAlone = 200'000, kAloneSlices = 4;
  std::int64_t looks(std::int64_t work) const {
    return problem_.has_shapes() ? work * kLooksPerWork : work / kWorkPerLook;
  }

  const Problem& problem_;
  const Bytes bound_;
  const std::uint64_t seed_;
  std::optional<SqueakySearch> wheel_;
};

// A search that proves nothing, and never ends by itself: OrderSearch for conflicts beyond lifetimes, EjectionSearch
// for conflicts and shapes.
template <class Endless>
class EndlessMember : public Search {
 public:
  EndlessMember(const Problem& problem, std::uint64_t seed) : problem_(problem), seed_(seed) {}

  bool step(const Incumbent& best, Bytes enough, std::int64_t work, const Deadline& deadline) override {
    if (!search_) search_.emplace(problem_, seed_, deadline);
    return search_->step(best, enough, work, deadline);
  }
  bool is_done(Bytes) const override { return false; }
  std::vector<Bytes> offsets() const override { return search_->offsets(); }
  std::int64_t work() const override { return search_ ? search_->work() : 0; }

 private:
  const Problem& problem_;
  const std::uint64_t seed_;
  std::optional<Endless> search_;
};

}  // namespace memplan
