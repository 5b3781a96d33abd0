// PairSearch: is there a plan within a capacity, for buffers of which only pairs are known (pairs.hpp)? Exact: it ends
// with a plan, or with the proof that there is none, unless its effort runs out first.
//
// A state is a table of least differences: least[i][j] bytes at least lie between the offsets of i and j, the ground
// and the capacity included. It is kept closed, so that least[i][j] is never below least[i][k] + least[k][j]. Then
//
//   - A pair keeps the ranges of differences that the table allows. Without any, the state is dead. The outermost ones
//     raise the table.
//   - The state is dead if a clique has less room than its bytes, or if a small clique of several alignments cannot be
//     stacked in any order.
//   - If a pair has ranges on both sides of a forbidden one, one side is tried, then the other.
//
// A state in which every pair has one range is a plan: each buffer lies as low as the table allows.
//
// The next pair is one with little room on either side, or one where the search died before. Runs differ by chance, and
// are limited. Each knows where those before it died.
//
// Complexity: exponential; a node O(n^2) for each difference that rises. Guarantee: exact, for all that a Problem has.
// Source: memplan. Disjunctions of differences, closed: Dechter, Meiri and Pearl 1991. Overloads: Carlier and Pinson
// 1989. Stacks by sets of members: after Held and Karp 1962. The room of a pair: Cheng and Smith 1997. Weights of
// failures: Boussemart et al. 2004.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/chance.hpp"
#include "memplan/clique.hpp"
#include "search/pairs/pairs.hpp"
#include "search/pairs/proof_tree.hpp"
#include "search/search.hpp"

namespace memplan {

class PairSearch {
 public:
  // Both outlive it. `cliques` are of the problem's buffers. `tree` is that of the last run, which then does not use that
  // plans may be turned upside down.
  PairSearch(const Problem& problem, const Pairs& pairs, const std::vector<Clique>& cliques, std::uint64_t seed,
             ProofTree* tree = nullptr);

  Decision run(Bytes capacity, const RunLimits& limits);

  // Per item of the pairs, after `found`.
  std::span<const Bytes> offsets() const { return offsets_; }

  // Items that can be exchanged, and of which the second lies no lower.
  std::span<const std::pair<Index, Index>> ordered() const { return ordered_; }

  std::int64_t work() const { return work_; }

 private:
  using Table = std::vector<Bytes>;

  struct Member {
    Index item;
    Bytes begin, end;
    Bytes padding;  // to where the next member may begin
  };
  struct Choice {
    Index i, j;
    Bytes below, above;  // the difference is at most, or at least
    bool above_first;
  };
  enum class Result { found, dead, stopped };

  void add_clique(const Clique& clique, const std::vector<Index>& item);
  void order_twins();
  void order_upside_down();
  bool start(Bytes capacity);
  Result search(std::size_t depth);
  bool propagate(Table& table, std::vector<Index>& open);
  bool narrow(Table& table, Index i, Index j, bool& decided);
  bool raise(Table& table, Index a, Index b, Bytes difference);
  bool overloaded(const Table& table);
  bool overloaded(const Table& table, const std::vector<Member>& clique);
  bool cannot_be_stacked(const Table& table, const std::vector<Member>& clique);
  void write_down(const Table& table, const std::vector<Member>& clique, Bytes from, Bytes to);
  bool choose(const Table& table, const std::vector<Index>& open, Choice& choice);
  Result settle(const Table& table);

  Index ground() const { return pairs_.count(); }
  std::size_t cell(Index i, Index j) const { return at(i) * side_ + at(j); }

  Bytes lowest(const Table& table, const Member& m) const { return table[cell(ground(), m.item)] + m.begin; }
  Bytes highest(const Table& table, const Member& m) const { return -table[cell(m.item, ground())] + m.end; }

  const Pairs& pairs_;
  ProofTree* const tree_;
  const std::size_t side_;   // of a table
  std::vector<Bytes> step_;  // per cell: the difference is a multiple of it; 0: it is 0
  bool plain_steps_ = true;  // all are 1
  std::vector<std::vector<Member>> cliques_;
  std::vector<std::pair<Index, Index>> ordered_;  // twins: the second lies no lower
  Index mirror_i_ = kNone, mirror_j_ = kNone;     // upside down a plan is a plan: these may lie in this order
  std::vector<double> failures_;                  // per pair
  Chance chance_;
  bool vary_ = false;
  Bytes capacity_ = 0;
  std::int64_t nodes_left_ = 0, work_ = 0, most_work_ = 0;
  const Deadline* deadline_ = nullptr;
  struct Level {
    Table table;
    std::vector<Index> open;  // pairs with several gaps, as i * side + j
  };
  std::vector<std::unique_ptr<Level>> levels_;
  std::vector<Bytes> offsets_;
  std::vector<Index> order_;  // of a clique's members
  std::vector<Bytes> ends_;   // per set of a clique's members, the least end of a stack of them
  Index failed_i_ = 0, failed_j_ = 0;
};

}  // namespace memplan
