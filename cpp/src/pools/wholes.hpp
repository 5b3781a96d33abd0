// Wholes: what lies in one pool: a buffer, or several at fixed distances from each other, as one. And where each may
// lie.
//
// Alignments, pins and reserved bytes differ from pool to pool, so there is a problem per pool. It has all wholes, as
// each would lie there; costs say which of them may.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memplan/memories.hpp"
#include "problem/fold.hpp"

namespace memplan {

class Wholes {
 public:
  // Throws ProblemError, with the name of the pool, for pins and reserved bytes of which a pool has no plan, and for
  // buffers that no pool takes together; InfeasibleError for a whole that fits in no pool by itself.
  explicit Wholes(const MemoryRequest& request);

  Index count() const { return folds_.front().problem().count(); }
  std::size_t pools() const { return folds_.size(); }

  // All wholes as they would lie in a pool. Lives, and how many bytes are in use when, are the same in all.
  const Problem& in(std::size_t pool) const { return folds_[pool].problem(); }
  std::optional<Bytes> capacity(std::size_t pool) const { return capacity_[pool]; }
  // kRefused where it may not lie there, or cannot: for its size, or for what is pinned and reserved.
  std::int64_t cost_of(Index whole, std::size_t pool) const { return cost_[at(whole) * pools() + pool]; }

  const Fold& fold(std::size_t pool) const { return folds_[pool]; }

 private:
  void add_costs(const MemoryRequest& request);
  void refuse_what_has_no_room(const MemoryRequest& request);

  std::vector<Fold> folds_;
  std::vector<std::optional<Bytes>> capacity_;
  std::vector<std::int64_t> cost_;
};

// The buffers of a request as they would lie in a pool: with its alignment where it takes them, its pins and reserved
// bytes. Throws ProblemError, with the name of the pool.
Problem problem_in(const MemoryRequest& request, std::size_t pool);

// Some buffers of a problem, in their order, with all that is asked of them.
Problem selection_of(const Problem& problem, const std::vector<Index>& buffers);

}  // namespace memplan
