// inductor_reuse: a request takes over a freed block of exactly as many bytes, the one freed last first. Every other
// request gets a new block.
//
//   offset ▲      ┌─────────┐         2 asks for less than 1 had: a new block
//          │      │    2    │
//          │ ┌────┼─────────┘
//          │ │ 1  │
//          │ │    │
//          │ ├────┼─────────┐         3 asks for as much as 0 had and takes its block
//          │ │ 0  │    3    │
//          └─┴────┴─────────┴──▶ step
//
// Buffers that die at one step are freed by index, so that the highest index is taken first.
//
// torch also compares the device, type, stream and alignment of blocks; a problem knows bytes only. torch's code
// deletes a block that nobody takes over, so the document's peak is the largest sum of the blocks that are alive or
// cached at a moment. An arena gives nothing back: blocks lie end to end, and the peak is the sum of all of them.
//
// reuse=below_peak is torch 2.13's rule. A block that waits for its next request is memory in use. So it is taken over
// only if the load with all waiting blocks stays within the highest load. Otherwise, a new block is made. This lowers
// the peak of real memory, but an arena, which keeps every block, only grows. torch estimates the load by its
// scheduler's nodes, and counts more: an output in place beside its input, for example.
//
// Complexity: O(n log n); extra conflicts add the blocks passed over times their members.
// Guarantee: none. Source: torch.compile's memory_plan_reuse (torch memory planning); _inductor/codegen/wrapper.py.
#include <map>
#include <optional>

#include "base/max_tree.hpp"
#include "memplan/bounds.hpp"
#include "placing/shared_objects.hpp"
#include "planners/planners.hpp"

namespace memplan {

namespace {

// The load, and on top of it the blocks that have waited for a request.
class WaitingLoad {
 public:
  explicit WaitingLoad(const Problem& problem) : WaitingLoad(load_curve(problem)) {}

  // Whether a block of `size` could wait from `freed` to `taken` without raising the highest load.
  bool has_room(Bytes size, Step freed, Step taken) const {
    return size <= highest_ - bytes_.max(position(freed), position(taken));
  }
  void wait(Bytes size, Step freed, Step taken) { bytes_.add(position(freed), position(taken), size); }

 private:
  explicit WaitingLoad(const LoadCurve& curve)
      : step_(curve.step), bytes_(curve.bytes), highest_(bytes_.max(0, bytes_.size())) {}

  std::size_t position(Step step) const {
    return at(std::lower_bound(step_.begin(), step_.end(), step) - step_.begin());
  }

  std::vector<Step> step_;
  MaxTree bytes_;  // per step
  Bytes highest_;
};

class Reuse {
 public:
  Reuse(const Problem& problem, bool below_peak)
      : problem_(problem), objects_(problem), block_of_(problem.size().size(), kNone) {
    if (below_peak) load_.emplace(problem);
  }

  void allocate(Index i) {
    Index block = take_over(i);
    if (block == kNone) block = objects_.open();
    objects_.put(block, i);
    block_of_[at(i)] = block;
  }

  void free(Index i) { free_[problem_.size(i)].push_back({block_of_[at(i)], problem_.last(i)}); }

  Placement end_to_end() const { return objects_.end_to_end(); }

 private:
  struct Freed {
    Index block;
    Step step;
  };

  Index take_over(Index i) {
    std::vector<Freed>& same_size = free_[problem_.size(i)];
    const auto last = std::find_if(same_size.rbegin(), same_size.rend(),
                                   [&](const Freed& freed) { return objects_.may_hold(freed.block, i); });
    if (last == same_size.rend() || !may_wait(*last, i)) return kNone;
    const Index block = last->block;
    same_size.erase(std::next(last).base());
    return block;
  }

  bool may_wait(const Freed& freed, Index i) {
    if (!load_) return true;
    if (!load_->has_room(problem_.size(i), freed.step, problem_.first(i))) return false;
    load_->wait(problem_.size(i), freed.step, problem_.first(i));
    return true;
  }

  const Problem& problem_;
  SharedObjects objects_;
  std::vector<Index> block_of_;               // per buffer
  std::map<Bytes, std::vector<Freed>> free_;  // blocks by size, the last freed at the back
  std::optional<WaitingLoad> load_;
};

}  // namespace

Placement inductor_reuse(const Problem& problem, const PlanOptions& options) {
  Reuse reuse(problem, options.get(kInductorReuse[0]) == 1);
  live_through(
      problem, by_birth(problem), Deadline(options), [&](Index i) { reuse.free(i); },
      [&](Index i) { reuse.allocate(i); });
  return reuse.end_to_end();
}

}  // namespace memplan
