// Pool problems: a problem per pool, because alignments, pins and reserved bytes differ from pool to pool.
//
// A group is a buffer, or several buffers at fixed distances. Each problem has every group, as it would lie in that
// pool. Costs say which pools take which groups.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pools/request.hpp"
#include "problem/fold.hpp"

namespace memplan {

class PoolProblems {
 public:
  // Throws ProblemError, naming the pool, for pins and reserved bytes that contradict each other, and for a group that
  // no pool takes as a whole. Throws InfeasibleError for a group that by itself fits in no pool.
  explicit PoolProblems(const PoolsRequest& request);

  Index count() const { return folds_.front().problem().count(); }
  std::size_t pools() const { return folds_.size(); }

  // All groups as they would lie in a pool. Lives, and how many bytes are in use when, are the same in all.
  const Problem& in(std::size_t pool) const { return folds_[pool].problem(); }
  std::optional<Bytes> capacity(std::size_t pool) const { return capacity_[pool]; }
  // kRefused if the pool does not take the group, or has no room for it beside what is pinned and reserved.
  std::int64_t cost_of(Index group, std::size_t pool) const { return cost_[at(group) * pools() + pool]; }

  const Fold& fold(std::size_t pool) const { return folds_[pool]; }

 private:
  void add_costs(const PoolsRequest& request);
  void refuse_what_has_no_room(const PoolsRequest& request);

  std::vector<Fold> folds_;
  std::vector<std::optional<Bytes>> capacity_;
  std::vector<std::int64_t> cost_;
};

// The buffers of a request as they would lie in a pool: with its pins and reserved bytes, and its alignment for the
// buffers that it takes. Throws ProblemError, naming the pool.
Problem problem_in(const PoolsRequest& request, std::size_t pool);

}  // namespace memplan
