#include "methods/joined.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

// Columns of the one problem, as methods are added to it.
class Joining {
 public:
  explicit Joining(std::span<const SharedBytes> shared) : shared_(shared), pinned_by_(shared.size(), nullptr) {
    for (const SharedBytes& stays : shared) add(stays.name, stays.bytes, 0, 1, 1, kNowhere, {});
  }

  void add(const MethodProblem& method) {
    const Problem& problem = *method.problem;
    begin_step_ = problem.count() == 0 ? 0 : std::ranges::min(problem.first());
    end_step_ = problem.count() == 0 ? 0 : std::ranges::max(problem.last());
    begin_ = end_;
    const std::uint64_t length = static_cast<std::uint64_t>(end_step_) - static_cast<std::uint64_t>(begin_step_);
    if (length > static_cast<std::uint64_t>(std::numeric_limits<Step>::max() - begin_))
      throw ProblemError("method " + quoted(method.name) + ": the steps of all methods are more than 2^63 - 1");
    end_ = begin_ + static_cast<Step>(length);

    std::vector<std::vector<std::size_t>> staying(at(problem.count()));  // per buffer, by where they lie in it
    for (std::size_t s = 0; s < method.spots.size(); ++s)
      if (method.spots[s].buffer != kNone) staying[at(method.spots[s].buffer)].push_back(s);
    std::vector<Index>& place = place_.emplace_back(at(problem.count()), kNone);
    for (Index b = 0; b < problem.count(); ++b) place[at(b)] = placed(method, b, staying[at(b)]);
    carry(problem, place);
  }

  Joined done() {
    for (std::size_t s = 0; s < shared_.size(); ++s) last_[s] = std::max<Step>(end_, 1);
    const auto count = static_cast<Index>(size_.size());
    Problem problem(std::move(size_), std::move(first_), std::move(last_), std::move(alignment_), std::move(names_));
    if (!parts_.empty()) problem = problem.with_shapes(std::move(parts_));
    if (!conflicts_.empty()) {
      Conflicts conflicts(count);
      for (const auto& [a, b] : conflicts_) conflicts.add(a, b);
      problem = problem.with_conflicts(std::move(conflicts));
    }
    problem = problem.with_pins(std::move(pins_), std::move(reserved_));
    if (branched_) problem = problem.with_branches(std::move(branches_));
    if (!together_.empty()) problem = problem.with_together(std::move(together_));
    return {std::move(problem), std::move(place_)};
  }

 private:
  Step shifted(Step step) const {
    return begin_ + static_cast<Step>(static_cast<std::uint64_t>(step) - static_cast<std::uint64_t>(begin_step_));
  }

  Index add(std::string name, Bytes size, Step first, Step last, Bytes alignment, Bytes pin, std::string_view branch) {
    names_.push_back(std::move(name));
    size_.push_back(size);
    first_.push_back(first);
    last_.push_back(last);
    alignment_.push_back(alignment);
    pins_.push_back(pin);
    branches_.emplace_back(branch);  // of methods that are alive at different steps, none meet
    branched_ |= !branch.empty();
    return static_cast<Index>(size_.size() - 1);
  }

  Index placed(const MethodProblem& method, Index b, std::vector<std::size_t>& staying) {
    const Problem& problem = *method.problem;
    const auto inside = [&](std::size_t s) { return method.spots[s].inside; };
    std::ranges::stable_sort(staying, {}, inside);
    const bool shaped = !problem.parts(b).empty() || !staying.empty();
    std::vector<Part> used;
    if (shaped) used = besides(method, b, staying);
    if (!staying.empty() && used.empty() && inside(staying.front()) == 0) {
      const auto whole = static_cast<Index>(staying.front());
      merge(method, b, staying.front());
      for (const std::size_t s : std::span(staying).subspan(1))
        together_.push_back({whole, static_cast<Index>(s), inside(s)});
      return whole;
    }
    const Index own = add(method.name + "/" + problem.name(b), problem.size(b), shifted(problem.first(b)),
                          shifted(problem.last(b)), problem.alignment(b), problem.pin(b), problem.branch(b));
    for (Part& part : used) parts_.push_back({own, part.begin, part.end, shifted(part.first), shifted(part.last)});
    for (const std::size_t s : staying) together_.push_back({own, static_cast<Index>(s), inside(s)});
    return own;
  }

  // What a buffer uses besides what stays in it.
  std::vector<Part> besides(const MethodProblem& method, Index b, const std::vector<std::size_t>& staying) const {
    std::vector<Part> used;
    method.problem->for_each_part(b, [&](Part part) {
      for (const std::size_t s : staying) {
        const Bytes begin = method.spots[s].inside, end = begin + shared_[s].bytes;
        if (const Bytes until = std::min(part.end, begin); part.begin < until)
          used.push_back({b, part.begin, until, part.first, part.last});
        part.begin = std::max(part.begin, end);
      }
      if (part.begin < part.end) used.push_back(part);
    });
    return used;
  }

  void merge(const MethodProblem& method, Index b, std::size_t s) {
    alignment_[s] = common_alignment(alignment_[s], method.problem->alignment(b));
    const Bytes pin = method.problem->pin(b);
    if (pin == kNowhere) return;
    if (pins_[s] != kNowhere && pins_[s] != pin)
      throw ProblemError("shared " + quoted(shared_[s].name) + " is pinned to " + std::to_string(pins_[s]) + " in " +
                         quoted(pinned_by_[s]->name) + ", and to " + std::to_string(pin) + " in " +
                         quoted(method.name));
    pins_[s] = pin;
    pinned_by_[s] = &method;
  }

  // What else the method's problem asks for.
  void carry(const Problem& problem, const std::vector<Index>& place) {
    const auto count = static_cast<Index>(shared_.size());
    for (Index a = 0; problem.conflicts() != nullptr && a < problem.count(); ++a)
      problem.conflicts()->for_each(a, [&](Index b) {
        const Index one = place[at(a)], other = place[at(b)];
        if (a < b && std::min(one, other) >= count) conflicts_.emplace_back(one, other);  // the rest is always alive
      });
    for (const Together& row : problem.together())
      together_.push_back({place[at(row.a)], place[at(row.b)], row.distance});
    for (const Reserved& range : problem.reserved()) {
      const Step first = std::max(range.first, begin_step_), last = std::min(range.last, end_step_);
      if (first < last) reserved_.push_back({range.begin, range.end, shifted(first), shifted(last)});
    }
  }

  const std::span<const SharedBytes> shared_;
  std::vector<const MethodProblem*> pinned_by_;  // per shared tensor
  std::vector<Bytes> size_, alignment_, pins_;
  std::vector<Step> first_, last_;
  std::vector<std::string> names_, branches_;
  std::vector<Part> parts_;
  std::vector<Together> together_;
  std::vector<std::pair<Index, Index>> conflicts_;
  std::vector<Reserved> reserved_;
  std::vector<std::vector<Index>> place_;
  bool branched_ = false;
  Step begin_step_ = 0, end_step_ = 0;  // of the method that is added
  Step begin_ = 0, end_ = 0;            // where these are in the one problem
};

}  // namespace

Bytes common_alignment(Bytes a, Bytes b) {
  const Bytes part = a / std::gcd(a, b);
  if (part > kMaxBytes / b)
    throw ProblemError("alignment " + std::to_string(b) + " and " + std::to_string(a) +
                       " have no common multiple that fits int64");
  return part * b;
}

Joined joined(std::span<const MethodProblem> methods, std::span<const SharedBytes> shared) {
  Joining joining(shared);
  for (const MethodProblem& method : methods) joining.add(method);
  return joining.done();
}

}  // namespace memplan
