#include "storage/choosing.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "memplan/bounds.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostSubsetsOf = 12;
constexpr std::int64_t kWorkOfTensor = 50;  // of one look at a choice, for each tensor and op

class Chooser {
 public:
  Chooser(const Graph& graph, const StorageOptions& options, std::span<const Shared> possible, std::int64_t work)
      : graph_(graph),
        options_(options),
        possible_(possible),
        looks_(work / (kWorkOfTensor * (graph.tensor_count() + graph.op_count() + 1))) {}

  Choices run(std::span<const Shared> start) {
    const bool all = possible_.size() <= kMostSubsetsOf && (std::int64_t{1} << possible_.size()) <= looks_;
    if (all) {
      for (std::uint32_t subset = 0; subset < (1u << possible_.size()); ++subset) look(wanted_of(subset));
    } else {
      improve({start.begin(), start.end()});
      improve({possible_.begin(), possible_.end()});
    }
    Choices choices{{}, all};
    for (auto& [key, choice] : known_) choices.lowest.push_back(std::move(choice));
    std::stable_sort(choices.lowest.begin(), choices.lowest.end(),
                     [](const Choice& a, const Choice& b) { return a.load < b.load; });
    return choices;
  }

 private:
  using Key = std::vector<std::tuple<Index, Sharing, Index, Index, Bytes>>;

  // How high the load is, and for how long: what a change lowers.
  struct Look {
    Bytes load = 0;
    Step steps = 0;
    std::vector<Shared> shared = {};
    std::vector<bool> at_peak = {};  // per tensor: whether its buffer is in use at the first of the highest steps

    bool operator<(const Look& other) const { return std::tie(load, steps) < std::tie(other.load, other.steps); }
  };

  static auto key(const Shared& shared) {
    return std::tuple(shared.op, shared.how, shared.view.output, shared.view.input, shared.view.offset);
  }

  std::vector<Shared> wanted_of(std::uint32_t subset) const {
    std::vector<Shared> wanted;
    for (std::size_t k = 0; k < possible_.size(); ++k)
      if ((subset >> k & 1) != 0) wanted.push_back(possible_[k]);
    return wanted;
  }

  Look look(std::span<const Shared> wanted) {
    --looks_;
    const Buffers buffers = buffers_of(graph_, options_, wanted);
    const LoadCurve curve = load_curve(buffers.problem);
    Look look{0, 0, buffers.shared};
    for (std::size_t k = 0; k + 1 < curve.step.size(); ++k) {
      if (curve.bytes[k] > look.load) look = {curve.bytes[k], 0, std::move(look.shared)};
      if (curve.bytes[k] == look.load) look.steps += curve.step[k + 1] - curve.step[k];
    }
    std::vector<bool> in_use(at(buffers.problem.count()), false);
    for (const TightestStep::User& user : tightest_step(buffers.problem).users) in_use[at(user.buffer)] = true;
    for (const Index b : buffers.buffer_of_tensor) look.at_peak.push_back(b != kNone && in_use[at(b)]);
    Key known;
    for (const Shared& shared : look.shared) known.push_back(key(shared));
    std::sort(known.begin(), known.end());
    known_.try_emplace(std::move(known), Choice{look.shared, look.load});
    return look;
  }

  // Shares one thing more or one less, of those that touch the highest step, as long as that lowers it.
  void improve(std::vector<Shared> wanted) {
    Look best = look(wanted);
    for (bool better = true; better && looks_ > 0;) {
      better = false;
      for (std::size_t k = 0; k < possible_.size() && looks_ > 0 && !better; ++k) {
        const View& view = possible_[k].view;
        if (!best.at_peak[at(view.input)] && !best.at_peak[at(view.output)]) continue;
        std::vector<Shared> changed = best.shared;
        const auto same = [&](const Shared& shared) { return key(shared) == key(possible_[k]); };
        if (std::erase_if(changed, same) == 0) changed.push_back(possible_[k]);
        Look found = look(changed);
        better = found < best;
        if (better) best = std::move(found);
      }
    }
  }

  const Graph& graph_;
  const StorageOptions& options_;
  std::span<const Shared> possible_;
  std::int64_t looks_;
  std::map<Key, Choice> known_;
};

}  // namespace

Choices choose_sharing(const Graph& graph, const StorageOptions& options, std::span<const Shared> possible,
                       std::span<const Shared> start, std::int64_t work) {
  return Chooser(graph, options, possible, work).run(start);
}

}  // namespace memplan
