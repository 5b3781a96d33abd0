// Member: a search that takes turns in a portfolio. A member may run portfolios of its own, as the member of bands
// does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "memplan/plan.hpp"
#include "memplan/plan_options.hpp"
#include "memplan/problem.hpp"
#include "search/search.hpp"

namespace memplan {

// A search that takes turns, and the name under which its plans are reported.
struct Member {
  std::string_view name;
  std::unique_ptr<Search> search;
  bool seeks_proofs = false;  // it is of use even if it finds no plan
};

// A portfolio of a problem of its own that works a round at a time.
class Rounds {
 public:
  virtual ~Rounds() = default;
  // Gives each member a slice of so much work. The first round makes a first plan; it throws if the deadline passes
  // before that.
  virtual void round(std::int64_t slice, const Deadline& deadline) = 0;
  virtual bool has_plan() const = 0;
  virtual bool is_done() const = 0;  // nothing better is to be expected
  virtual const std::vector<Bytes>& offsets() const = 0;
  virtual Bytes peak() const = 0;
  virtual Bytes lower_bound() const = 0;  // proven
  virtual std::int64_t work() const = 0;
};

using MakeRounds = std::function<std::unique_ptr<Rounds>(const Problem& problem, std::uint64_t seed)>;

// For planners that run within the deadline, on its thread.
inline PlanOptions options_within(PlanOptions options, const Deadline& deadline) {
  options.time_limit = deadline.left();
  options.start = {};
  options.stop = [&deadline] { return deadline.passed(); };
  options.improved = {};
  options.warm.clear();
  return options;
}

}  // namespace memplan
