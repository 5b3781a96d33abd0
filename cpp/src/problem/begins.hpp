// Begins: the events at which buffers begin, in chains: each event of a chain happens before the next.
//
//     chain 0   ──b──────b───b──▶     A buffer ends at e. In each chain, e happens before some begin, and before all
//                   e ╲               after that: these buffers may take its bytes. The buffer is apart from those
//     chain 1   ──b────╲─b───b──▶     that begin sooner in the chain, but later than e by number.
//
// So in each chain, the buffers that are apart from one buffer are neighbours, and are found without a look at the
// others.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

struct Begin {
  Step event;  // if one event happens before another, it has the lower number
  Index buffer;
};

class Begins {
 public:
  // Per chain its begins, ascending.
  explicit Begins(std::vector<std::vector<Begin>> chains) : chains_(std::move(chains)) {
    for (std::size_t c = 0; c < chains_.size(); ++c)
      if (!chains_[c].empty()) by_latest_.push_back(c);
    std::sort(by_latest_.begin(), by_latest_.end(),
              [&](std::size_t a, std::size_t b) { return latest(a) > latest(b); });
  }

  // Calls f(buffer) for each buffer that begins at `end` or at a higher event that does not happen after it.
  // `before_reached(chain, begins)` says how many of these begins come before the first that equals `end` or that `end`
  // happens before. O(log n) for each chain that has later ones, besides the calls.
  template <class BeforeReached, class F>
  void for_each_apart(Step end, BeforeReached&& before_reached, F&& f) const {
    for (const std::size_t c : by_latest_) {
      if (latest(c) < end) return;
      const auto from = std::partition_point(chains_[c].begin(), chains_[c].end(),
                                             [&](const Begin& begin) { return begin.event < end; });
      const std::span<const Begin> later(from, chains_[c].end());
      for (const Begin& begin : later.first(before_reached(c, later))) f(begin.buffer);
    }
  }

 private:
  Step latest(std::size_t chain) const { return chains_[chain].back().event; }

  std::vector<std::vector<Begin>> chains_;
  std::vector<std::size_t> by_latest_;  // chains that have begins, by their last one, descending
};

}  // namespace memplan
