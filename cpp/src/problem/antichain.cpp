#include "problem/antichain.hpp"

#include <algorithm>
#include <utility>

namespace memplan {

namespace {

// From each vertex to those that may follow it, as much as the weights of both allow.
class ChainFlow {
 public:
  ChainFlow(const WeightedGraph& graph, const std::function<bool(Index, Index)>& may_follow)
      : words_(graph.words()), later_(at(graph.count()) * words_, 0), level_(at(graph.count())) {
    for (Index v = 0; v < graph.count(); ++v) {
      left_.push_back(graph.weight(v));
      for (Index u = 0; u < graph.count(); ++u)
        if (u != v && !graph.joined(v, u) && may_follow(v, u))
          later_[at(v) * words_ + at(u) / 64] |= std::uint64_t{1} << (at(u) % 64);
    }
    room_ = left_;
    from_.resize(left_.size());
    next_.resize(left_.size());
    next_from_.resize(left_.size());
    level_of_later_.resize(left_.size());
  }

  // Makes the flow larger; false once it is the largest.
  bool augment() {
    const bool open = find_levels();
    if (!open) return false;
    for (std::size_t v = 0; v < left_.size(); ++v) {
      next_[v] = 0;
      next_from_[v] = 0;
    }
    for (Index v = 0; v < count(); ++v)
      while (left_[at(v)] > 0) {
        const Bytes sent = send(v, left_[at(v)]);
        if (sent == 0) break;
        left_[at(v)] -= sent;
      }
    return true;
  }

  // Those that can send more, but get nothing more: after the last augment().
  std::vector<Index> cut() const {
    std::vector<Index> antichain;
    for (Index v = 0; v < count(); ++v)
      if (level_[at(v)] != kNone && level_of_later_[at(v)] == kNone) antichain.push_back(v);
    return antichain;
  }

  std::size_t work() const { return work_; }  // words and paths looked at

 private:
  Index count() const { return static_cast<Index>(left_.size()); }

  // The least number of edges to each, over what may still flow; false where no room is reached.
  bool find_levels() {
    std::fill(level_.begin(), level_.end(), kNone);
    std::fill(level_of_later_.begin(), level_of_later_.end(), kNone);
    std::vector<std::uint64_t> unseen(words_, ~std::uint64_t{0});
    std::vector<Index> queue;
    bool open = false;
    for (Index v = 0; v < count(); ++v)
      if (left_[at(v)] > 0) {
        level_[at(v)] = 0;
        queue.push_back(v);
      }
    for (std::size_t k = 0; k < queue.size(); ++k) {
      const Index v = queue[k];
      work_ += words_;
      for (std::size_t w = 0; w < words_; ++w)
        for (std::uint64_t rest = later_[at(v) * words_ + w] & unseen[w]; rest != 0; rest &= rest - 1) {
          const auto u = static_cast<Index>(w * 64 + at(std::countr_zero(rest)));
          unseen[w] &= ~(std::uint64_t{1} << (at(u) % 64));
          level_of_later_[at(u)] = level_[at(v)] + 1;
          open |= room_[at(u)] > 0;
          work_ += from_[at(u)].size();
          for (const auto& [other, bytes] : from_[at(u)])
            if (bytes > 0 && level_[at(other)] == kNone) {
              level_[at(other)] = level_[at(v)] + 2;
              queue.push_back(other);
            }
        }
    }
    return open;
  }

  // Sends at most `most` from v by levels. What came to a vertex from another may be sent on by that one elsewhere.
  Bytes send(Index v, Bytes most) {
    for (std::size_t& u = next_[at(v)]; u < left_.size(); ++u) {
      const std::uint64_t word = later_[at(v) * words_ + u / 64] >> (u % 64);
      ++work_;
      if (word == 0) {
        u |= 63;
        continue;
      }
      u += at(std::countr_zero(word));
      if (level_of_later_[u] != level_[at(v)] + 1) continue;
      const Bytes sent = pass(static_cast<Index>(u), most, level_[at(v)] + 2);
      if (sent == 0) continue;
      receive(static_cast<Index>(u), v, sent);
      return sent;
    }
    return 0;
  }

  // Makes room at u for at most `most`.
  Bytes pass(Index u, Bytes most, Index level) {
    if (room_[at(u)] > 0) {
      const Bytes sent = std::min(room_[at(u)], most);
      room_[at(u)] -= sent;
      return sent;
    }
    for (std::size_t& k = next_from_[at(u)]; k < from_[at(u)].size(); ++k) {
      const auto [other, bytes] = from_[at(u)][k];
      ++work_;
      if (bytes == 0 || level_[at(other)] != level) continue;
      const Bytes sent = send(other, std::min(bytes, most));
      if (sent == 0) continue;
      from_[at(u)][k].second -= sent;
      return sent;
    }
    return 0;
  }

  void receive(Index u, Index v, Bytes sent) {
    auto& from = from_[at(u)];
    const auto entry = std::find_if(from.begin(), from.end(), [&](const auto& f) { return f.first == v; });
    work_ += from.size();
    if (entry != from.end()) {
      entry->second += sent;
    } else {
      from.emplace_back(v, sent);
    }
  }

  std::size_t words_;
  std::vector<std::uint64_t> later_;                        // rows of bits: what may follow
  std::vector<Bytes> left_, room_;                          // per vertex: what it may still send, and get
  std::vector<std::vector<std::pair<Index, Bytes>>> from_;  // per vertex: what it gets, and from whom
  std::vector<Index> level_, level_of_later_;
  std::vector<std::size_t> next_, next_from_;  // where to look on, in this phase
  std::size_t work_ = 0;
};

}  // namespace

std::optional<std::vector<Index>> heaviest_antichain(const WeightedGraph& graph,
                                                     const std::function<bool(Index, Index)>& may_follow,
                                                     std::int64_t work, const std::function<void(std::size_t)>& tick) {
  ChainFlow flow(graph, may_follow);
  tick(at(graph.count()) * at(graph.count()));
  for (std::size_t before = 0; flow.augment(); before = flow.work()) {
    tick(flow.work() - before);
    if (static_cast<std::int64_t>(flow.work()) > work) return std::nullopt;
  }
  return flow.cut();
}

}  // namespace memplan
