// Accepted: the buffers of a graph that pools accept, by kinds, types of ops and names, and how often they are
// accessed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "memplan/buffers.hpp"
#include "memplan/pools.hpp"

namespace memplan {

// Per buffer and pool, the pools of a buffer in a row: whether the pool takes it.
using Taken = std::vector<char>;

class Accepted {
 public:
  Accepted(const Graph& graph, std::span<const Pool> pools);  // which outlive it

  // Whether a pool takes the tensor or workspace of that name; false if there is no such name.
  bool takes(std::string_view name, std::size_t pool) const;
  // A pool takes a buffer if it takes all tensors in it. O((tensors + ops) pools).
  Taken of(const Buffers& buffers) const;

 private:
  using Names = std::unordered_set<std::string_view>;

  bool takes(std::size_t pool, TensorKind kind, std::string_view name, const Op* made_by) const;
  bool takes_tensor(Index t, std::size_t pool) const;
  bool takes_workspace(Index k, std::string_view name, std::size_t pool) const;

  const Graph& graph_;
  std::vector<std::optional<Names>> accepts_;  // per pool
  std::vector<Index> maker_;                   // per tensor: the op that writes it
};

// Per buffer, the bytes that ops write to it and read from it. An op reads its inputs and writes its outputs once, and
// writes and reads its workspace. A view costs nothing, nor does a slice or a part of a concatenation that is not
// copied. If `counts` names a tensor, the tensor is accessed so often instead. O(reads + writes).
std::vector<std::int64_t> accessed_bytes(const Graph& graph, const Buffers& buffers, const Accesses& counts);

// bytes x count, or the most that int64 holds.
std::int64_t saturated_product(Bytes bytes, std::int64_t count);

}  // namespace memplan
