#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <utility>

#include "base/deadline.hpp"
#include "base/time_share.hpp"
#include "memplan/bounds.hpp"
#include "memplan/happens_before.hpp"
#include "memplan/registry.hpp"
#include "memplan/replay.hpp"
#include "memplan/sharing_bound.hpp"
#include "memplan/solve.hpp"
#include "solve/attempt.hpp"
#include "storage/choosing.hpp"
#include "storage/overlap.hpp"
#include "storage/row_times.hpp"

namespace memplan {

namespace {

// Nothing shares bytes by choice: what the planner "naive" is about, whatever may be shared.
StorageOptions apart(StorageOptions storage) {
  storage.inplace = storage.zero_copy = false;
  return storage;
}

// Plans a graph, with one choice of sharing or several; what is told of the plans peaks lower each time.
class GraphSolver {
 public:
  GraphSolver(const Graph& graph, const ChosenPlanner& planner, const StorageOptions& storage,
              const PlanOptions& options, const OnGraphPlan& tell)
      : graph_(graph), planner_(planner), storage_(storage), options_(options), tell_(tell) {}

  GraphPlan run() {
    check_options(options_);
    const std::string_view name = planner_.planner.name;
    const bool several = name == "auto";
    const Buffers first = buffers_of(graph_, name == "naive" ? apart(storage_) : storage_);
    possible_ = possible_sharing(graph_, HappensBefore(graph_), storage_);
    const std::optional<Buffers> overlapping = several ? left_to_overlap(first) : std::nullopt;
    find_bound(overlapping ? *overlapping : first);
    if (options_.capacity && bound_ > *options_.capacity)
      throw infeasible(first.problem, *options_.capacity, bound_, {}, first);
    consider(first, !overlapping);
    if (overlapping && (!best_ || may_go_on())) consider(*overlapping);
    if (several && !first.shared.empty()) try_sharing_less(load(first.problem));
    if (several && !one_choice_ && may_choose()) try_other_sharing(first.shared);
    if (!best_) attempt(first);
    if (fits(best_->plan, options_)) return std::move(*best_);
    const Problem problem = best_->buffers.problem;
    throw infeasible(problem, *options_.capacity, bound_, std::move(best_->plan), std::move(best_->buffers));
  }

 private:
  // An output that may lie over an input because its op's loops are ordered need not share bytes with it by choice: in
  // place is one of the distances that it may have. Then there are fewer choices, and proofs hold for all of them. In
  // place by choice is tried first, as it leaves less to search for.
  std::optional<Buffers> left_to_overlap(const Buffers& buffers) {
    if (buffers.begin_of_op.empty()) return std::nullopt;
    std::unordered_map<Index, std::vector<Overlap>> overlaps;  // per op
    const auto is_placed = [&](Index t) { return buffers.buffer_of_tensor[at(t)] != kNone; };
    const auto overlaps_anyway = [&](const Shared& shared) {
      const auto& [output, input, offset] = shared.view;
      if (shared.how != Sharing::inplace || !is_placed(output) || !is_placed(input)) return false;
      const auto [known, is_new] = overlaps.try_emplace(shared.op);
      if (is_new) known->second = overlaps_of(graph_, shared.op);
      return std::ranges::any_of(known->second, [&](const Overlap& overlap) {
        return overlap.output == output && overlap.input == input && overlap.ahead <= -offset;
      });
    };
    if (std::erase_if(possible_, overlaps_anyway) == 0) return std::nullopt;
    std::vector<Shared> left = buffers.shared;
    std::erase_if(left, overlaps_anyway);
    return buffers_of(graph_, storage_, left);
  }

  // What holds whatever is shared. Where nothing may share bytes by choice, or lie over what is being read but where the
  // one problem lets it, what is proven of that problem does.
  void find_bound(const Buffers& buffers) {
    const HappensBefore order(graph_);
    has_all_overlaps_ = has_all_overlaps(graph_, order);
    one_choice_ = possible_.empty() && has_all_overlaps_;
    bound_ = one_choice_ ? bound_of(buffers.problem, options_) : bound_of_sharing(order);
    for (const auto& [name, pin] : graph_.layout().pins)
      if (const auto t = graph_.find(name)) bound_ = std::max(bound_, saturated_add(pin, graph_.tensor(*t).bytes));
  }

  Bytes bound_of_sharing(const HappensBefore& order) const {
    return graph_.branches() ? sharing_bound(graph_, storage_) : sharing_bound(graph_, order, storage_, possible_);
  }

  // Sharing lowers the load where it can, and still a search may do worse with what it leaves, and another choice may
  // have a lower load. Nothing shared is tried wherever it may be better, so that sharing never makes the peak higher;
  // sharing of one sort only where its load is lower than all before.
  void try_sharing_less(Bytes least) {
    for (const auto& [inplace, zero_copy] : {std::pair{false, false}, {true, false}, {false, true}}) {
      if (best_ && !may_go_on()) return;
      StorageOptions other = storage_;
      other.inplace = other.inplace && inplace;
      other.zero_copy = other.zero_copy && zero_copy;
      Buffers buffers = buffers_of(graph_, other);
      const Bytes needed = load(buffers.problem);
      const bool apart = !inplace && !zero_copy;
      if (apart || needed < least) consider(std::move(buffers));
      least = std::min(least, needed);
    }
  }

  // What is chosen for the whole graph, the lowest loads first, until some plans are not proven to be the best of their
  // choice. Where no other choice is safe, what they need at least is what the graph does.
  void try_other_sharing(std::span<const Shared> start) {
    if (best_ && !may_go_on()) return;
    const Choices choices = choose_sharing(graph_, storage_, possible_, start, kWorkOfChoosing);
    Bytes least = kMaxBytes;
    int open = 0;
    for (const Choice& choice : choices.lowest) {
      if (best_ && (choice.load >= best_->plan.peak || open == kMostOpen || !may_go_on())) {
        least = std::min(least, choice.load);
        break;
      }
      const Attempted found = consider(buffers_of(graph_, storage_, choice.shared));
      least = std::min(least, found.bound);
      if (found.peak && found.bound < *found.peak) ++open;
    }
    if (!choices.all || !has_all_overlaps_ || !best_ || !on_one_stream(graph_))
      return;  // on several, more may be safe than is tried
    bound_ = std::max(bound_, std::min(least, best_->plan.peak));
    best_->plan.lower_bound = bound_;
    best_->plan.optimal = best_->plan.peak == bound_;
  }

  struct Attempted {  // of one choice of sharing
    Bytes bound;
    std::optional<Bytes> peak = {};  // if it was planned
  };

  // Plans the graph with these tensors sharing bytes, unless what they need rules out that it helps.
  Attempted consider(Buffers buffers, bool has_all = true) {
    const Bytes needed = aligned_load(buffers.problem);
    const bool too_large = options_.capacity && needed > *options_.capacity;
    if (too_large || (best_ && needed >= best_->plan.peak)) return {needed};
    return attempt(std::move(buffers), has_all);
  }

  // With several streams the load is not what a plan needs, so there every subset is planned, if they are few.
  bool may_choose() const { return on_one_stream(graph_) || possible_.size() <= kMostOnStreams; }

  bool may_go_on() const {
    if (best_->plan.interrupted || (options_.time_limit && *options_.time_limit <= seconds_since(start_))) return false;
    return options_.capacity ? !fits(best_->plan, options_) : !best_->plan.optimal;
  }

  // Keeps the plan if it is better than those before. `has_all`: if there is one choice, this problem has all its plans.
  Attempted attempt(Buffers buffers, bool has_all = true) {
    const bool is_whole = one_choice_ && has_all;
    const auto bounded = [&](Plan& plan) {
      plan.lower_bound = is_whole ? std::max(bound_, plan.placement_bound) : bound_;
      plan.optimal = plan.peak == plan.lower_bound;
      plan.seconds += seconds_;
      plan.found_after += seconds_;
    };
    if (tell_)
      listener_.tell = [&](Plan plan) {
        bounded(plan);
        check(buffers, plan);
        tell_({buffers, std::move(plan)});
      };
    PlanOptions rest = options_;
    share_time(rest, options_.time_limit, start_);
    Plan plan = memplan::attempt(buffers.problem, planner_, rest, listener_);
    bounded(plan);
    check(buffers, plan);
    seconds_ = plan.seconds;
    const Attempted found{plan.placement_bound, plan.peak};
    if (is_whole) bound_ = plan.lower_bound;
    const bool interrupted = plan.interrupted;
    if (!best_ || plan.peak < best_->plan.peak) best_ = GraphPlan{std::move(buffers), std::move(plan)};
    best_->plan.lower_bound = std::max(best_->plan.lower_bound, bound_);
    best_->plan.optimal = best_->plan.peak == best_->plan.lower_bound;
    best_->plan.seconds = seconds_;
    best_->plan.interrupted = interrupted;
    return found;
  }

  void check(const Buffers& buffers, const Plan& plan) const {
    throw_if_any(replay_all(graph_, buffers, plan.offsets, kListedViolations), planner_.planner);
  }

  static constexpr std::int64_t kWorkOfChoosing = 1'000'000;
  static constexpr int kMostOpen = 2;               // choices whose plans are not proven
  static constexpr std::size_t kMostOnStreams = 6;  // that may share bytes, to plan all subsets

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const Graph& graph_;
  const ChosenPlanner& planner_;
  const StorageOptions& storage_;
  const PlanOptions& options_;
  const OnGraphPlan& tell_;
  Listener listener_ = {};
  std::vector<Shared> possible_ = {};
  bool has_all_overlaps_ = true;
  bool one_choice_ = true;  // nothing may share bytes by choice: the graph has one problem, which has all its plans
  Bytes bound_ = 0;         // no plan of the graph in its order peaks below
  double seconds_ = 0;      // of all attempts
  std::optional<GraphPlan> best_ = {};
};

}  // namespace

GraphPlan solve(const Graph& graph, std::string_view planner, const StorageOptions& storage, const PlanOptions& options,
                const OnGraphPlan& tell) {
  return solve(graph, choose_planner(planner), storage, options, tell);
}

GraphPlan solve(const Graph& graph, const ChosenPlanner& planner, const StorageOptions& storage,
                const PlanOptions& options, const OnGraphPlan& tell) {
  return GraphSolver(graph, planner, storage, options, tell).run();
}

Addresses addresses_of(const Buffers& buffers, std::span<const Bytes> offsets) {
  Addresses addresses;
  for (std::size_t t = 0; t < buffers.buffer_of_tensor.size(); ++t) {
    const Index b = buffers.buffer_of_tensor[t];
    const Bytes base = b == kNone ? 0 : offsets[at(b)];
    addresses.tensor.push_back(saturated_add(base, buffers.offset_in_buffer[t]));
    addresses.region.push_back(b == kNone ? buffers.root_of_tensor[t] : kNone);
  }
  for (Index b : buffers.buffer_of_workspace) addresses.workspace.push_back(b == kNone ? kNotPlaced : offsets[at(b)]);
  return addresses;
}

std::vector<ReplayFault> replay_all(const Graph& graph, const Buffers& buffers, std::span<const Bytes> offsets,
                                    std::size_t limit) {
  return replay_all(graph, addresses_of(buffers, offsets), buffers.donated, limit);
}

std::vector<ReplayFault> replay_all(const Graph& graph, const Addresses& addresses, std::vector<Index> donated,
                                    std::size_t limit) {
  // Sampled where ops may run side by side; of large graphs fewer, as each takes as long as all of the first.
  constexpr std::uint64_t kSequences = 16, kOpsOfAll = 1 << 18;
  const auto ops = static_cast<std::uint64_t>(std::max<Index>(graph.op_count(), 1));
  const std::uint64_t sequences = std::clamp<std::uint64_t>(kOpsOfAll / ops, 1, kSequences);
  ReplayOptions options{limit, std::move(donated), {}};
  std::vector<ReplayFault> faults = replay(graph, addresses, options);
  for (std::uint64_t seed = 0; !on_one_stream(graph) && faults.empty() && seed < sequences; ++seed) {
    options.sequence = legal_sequence(graph, seed);
    faults = replay(graph, addresses, options);
  }
  return faults;
}

}  // namespace memplan
