#include "memplan/obstruction.hpp"

#include <algorithm>
#include <string>

#include "memplan/clique.hpp"
#include "problem/orders.hpp"
#include "solve/attempt.hpp"

namespace memplan {

namespace {

enum class Answer { fits, cannot, unknown };

class Deletion {
 public:
  Deletion(const Problem& problem, Bytes capacity, std::int64_t effort, const Limits& limits)
      : problem_(problem),
        capacity_(capacity),
        planner_(choose_planner("auto:effort=" + std::to_string(effort))),
        limits_(limits),
        deadline_(limits) {
    check_options(options(capacity));
  }

  std::optional<Obstruction> run() {
    std::optional<Obstruction> found;
    in_time([&] {
      if (ask(problem_) != Answer::cannot) return;
      const Plan best = attempt(problem_, planner_, options(std::nullopt), nobody_);
      found = {heaviest(), false, best.lower_bound, best.peak};
      found->irreducible = reduce(found->buffers);
      find_what_helps(*found);
    });
    return found;
  }

 private:
  PlanOptions options(std::optional<Bytes> capacity) const {
    return {{deadline_.left(), {}, limits_.stop}, capacity, true};
  }

  Answer ask(const Problem& problem) {
    deadline_.check();
    PlanOptions asked = options(capacity_);
    asked.lower_bound = bound_of(problem, asked);
    if (asked.lower_bound > capacity_) return Answer::cannot;
    const Plan plan = attempt(problem, planner_, asked, nobody_);
    if (plan.peak <= capacity_) return Answer::fits;
    if (plan.lower_bound > capacity_) return Answer::cannot;
    deadline_.check();
    return Answer::unknown;
  }

  bool fits_without(Index gone, std::vector<Index> buffers) {
    std::erase(buffers, gone);
    return ask(problem_.subset(buffers)) == Answer::fits;
  }

  // The buffers of the heaviest clique, if they alone are too many; else all.
  std::vector<Index> heaviest() const {
    const Clique clique = heaviest_clique(problem_, options(std::nullopt));
    if (clique.bytes <= capacity_) return with_bytes(problem_);
    std::vector<Index> buffers;
    for (const CliqueMember& member : clique.members)
      if (buffers.empty() || buffers.back() != member.buffer) buffers.push_back(member.buffer);
    return buffers;
  }

  // True if all that is left is proven to be needed.
  bool reduce(std::vector<Index>& found) {
    std::vector<Index> left = found, undecided;
    const auto area = [&](Index i) {
      return static_cast<double>(problem_.size(i)) * static_cast<double>(length_of_life(problem_, i));
    };
    std::stable_sort(left.begin(), left.end(), [&](Index a, Index b) { return area(a) < area(b); });
    for (std::size_t piece = std::max<std::size_t>(left.size() / 2, 1); piece > 0; piece /= 2) {
      for (std::size_t from = 0; from < left.size();) {
        std::vector<Index> rest(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(from));
        for (std::size_t k = from + piece; k < left.size(); ++k) rest.push_back(left[k]);
        const Answer answer = ask(problem_.subset(rest));
        if (piece == 1 && answer == Answer::unknown) undecided.push_back(left[from]);
        if (answer == Answer::cannot) {
          found = left = std::move(rest);
          std::sort(found.begin(), found.end());
        } else {
          from += piece;
        }
      }
    }
    // What fitted beside buffers that have gone since, fits without them.
    return std::all_of(undecided.begin(), undecided.end(), [&](Index i) { return fits_without(i, found); });
  }

  // Without one of the set, or what it is fixed to, nothing fits.
  void find_what_helps(Obstruction& found) {
    for (const Index i : found.buffers)
      if (fits_without(i, with_bytes(problem_))) found.without.push_back(i);
    for (const Index i : found.buffers)
      if (problem_.pin(i) != kNowhere && ask(freed(i, kNone)) == Answer::fits) found.unpinned.push_back(i);
    for (Index row = 0; at(row) < problem_.reserved().size(); ++row)
      if (ask(freed(kNone, row)) == Answer::fits) found.unreserved.push_back(row);
  }

  // The problem without the pin of a buffer, or without a reserved range.
  Problem freed(Index buffer, Index row) const {
    std::vector<Bytes> pins;
    for (Index i = 0; i < problem_.count(); ++i) pins.push_back(i == buffer ? kNowhere : problem_.pin(i));
    std::vector<Reserved> reserved(problem_.reserved().begin(), problem_.reserved().end());
    if (row != kNone) reserved.erase(reserved.begin() + row);
    return problem_.with_pins(std::move(pins), std::move(reserved));
  }

  const Problem& problem_;
  const Bytes capacity_;
  const ChosenPlanner planner_;
  const Limits& limits_;
  const Deadline deadline_;
  Listener nobody_;
};

}  // namespace

std::optional<Obstruction> obstruction(const Problem& problem, Bytes capacity, std::int64_t effort,
                                       const Limits& limits) {
  return Deletion(problem, capacity, effort, limits).run();
}

}  // namespace memplan
