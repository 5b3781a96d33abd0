// Least: as little as is reached, by schedules that are asked for less and less.
//
//     proven ──────── refused ─────── target ─────────── reached
//     no schedule     none found      asked next         a schedule has it
//     needs less
//
// The target is what is proven first, then in the middle of what is left, until nothing is between. Then a little less
// than what was reached is asked for with more work, as long as that is found. What is reached is made as cheap as
// `fit` can.
//
// Guarantee: what is reached is a schedule; no schedule in this order needs less than the bound, which each refusal may
// raise: that of the largest op, or of all schedules of a small graph.
//
// Complexity: some thirty searches of `fit`, each with a part of the work.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/time_share.hpp"
#include "fit/fitter.hpp"
#include "memplan/errors.hpp"
#include "memplan/infeasible.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kBetween = 24;      // of the work, that a search between has
constexpr std::int64_t kLastPart = 6;      // of the work, that a search for a little less has
constexpr std::size_t kPartOfStates = 10;  // of the states, that such a search may visit
constexpr int kLast = 8;                   // of these, at most
constexpr double kTime = 0.25;             // of what is left of the time, that a search may take
constexpr Bytes kFine = 2000;              // parts of what is reached: what is between is not asked for in the middle

// What all sizes are multiples of, so that loads are.
Bytes unit_of(const Graph& graph) {
  Bytes unit = 0;
  for (const Tensor& tensor : graph.tensors()) unit = std::gcd(unit, tensor.bytes);
  for (const Op& op : graph.ops()) unit = std::gcd(unit, op.workspace);
  return std::max<Bytes>(unit, 1);
}

class Descent {
 public:
  Descent(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
          const FitOptions& options)
      : graph_(graph),
        fitter_(graph, facts, storage, options.recompute, options.transfer),
        options_(options),
        work_(work_for(graph, options)),
        deadline_(options),
        best_(asked(kMaxBytes, 1, 1, true).value()) {}

  Fitted run() {
    const Bytes unit = unit_of(graph_);
    lower(0, kBetween);  // says what is proven
    Bytes refused = proven_ - 1;
    for (Bytes target = proven_; refused < target && target < best_.load && !ended();
         target = refused + std::max<Bytes>((best_.load - refused) / 2, 1)) {
      if (!lower(target, kBetween)) refused = std::max(target, proven_ - 1);
      if (best_.load - refused <= std::max(unit, best_.load / kFine)) break;
    }
    for (int more = 0; more < kLast && proven_ < best_.load && !ended(); ++more)
      if (!lower(best_.load - 1, kLastPart)) break;
    if (!ended()) make_cheap();
    best_.load_bound = std::min(proven_, best_.load);
    best_.interrupted = interrupted_;
    return std::move(best_);
  }

 private:
  bool ended() {
    interrupted_ = interrupted_ || deadline_.passed();
    return interrupted_;
  }

  // Whether a schedule within a capacity is found, which is kept.
  bool lower(Bytes capacity, std::int64_t part) {
    std::optional<Fitted> found = asked(capacity, part, kTime, true);
    if (!found || found->load >= best_.load) return false;
    best_ = std::move(*found);
    return true;
  }

  // Of what needs as little, that which costs least.
  void make_cheap() {
    std::optional<Fitted> found = asked(best_.load, 1, 1, false);
    if (!found) return;
    const double bound = found->cost_bound;
    if (found->load < best_.load || found->added_cost <= best_.added_cost) best_ = std::move(*found);
    best_.cost_bound = std::min(bound, best_.added_cost);
  }

  std::optional<Fitted> asked(Bytes capacity, std::int64_t part, double share, bool any) {
    FitOptions options = options_;
    options.capacity = capacity;
    options.any = any;
    options.work = work_ / part;
    options.states = part == 1 ? options_.states : options_.states / kPartOfStates;
    options.time_limit = share_of(deadline_.left(), share);
    options.start.reset();
    try {
      return fitter_.within(options);
    } catch (const InfeasibleError& error) {
      proven_ = std::max(proven_, error.lower_bound);
    } catch (const EndedError&) {
    }
    return std::nullopt;
  }

  const Graph& graph_;
  Fitter fitter_;
  const FitOptions& options_;
  const std::int64_t work_;
  Deadline deadline_;
  Bytes proven_ = 0;
  bool interrupted_ = false;
  Fitted best_;
};

}  // namespace

Fitted fit_least(const Graph& graph, const std::vector<OpFacts>& facts, const StorageOptions& storage,
                 const FitOptions& options) {
  return Descent(graph, facts, storage, options).run();
}

}  // namespace memplan
