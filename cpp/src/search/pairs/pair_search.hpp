// PairSearch: is there a plan within a capacity? It looks at differences of offsets, pair by pair (pairs.hpp). Exact:
// it ends with a plan, or with the proof that there is none, unless its effort runs out first.
//
// A state is a table: item j lies at least least[i][j] bytes above item i. Address 0 is an item too, the *ground*, so
// the table also has the lowest and the highest offset of each item. The table is closed: no least[i][j] is below
// least[i][k] + least[k][j]. Then
//
//   - A pair keeps the ranges of differences that the table allows. If none is left, the state is dead. Where its
//     lowest range begins, and where its highest range ends, are new least differences for the table.
//   - The state is dead if a clique has less room than bytes. It is dead, too, if a small clique of several alignments
//     fits its room in no order.
//   - If a pair has ranges below and above a forbidden one, the search tries one side, then the other.
//
// A state in which every pair has one range is a plan: each item lies as low as the table allows.
//
// The search branches on a pair that has little room on both sides, or where states died before. Each run is limited.
// It breaks ties by chance, and knows where the runs before it died.
//
// Complexity: exponential; a node takes O(n^2) for each entry of the table that rises. Guarantee: exact, for all that a
// Problem has.
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
  // Both outlive it. `cliques` are of the problem's buffers. `tree` gets the proof of the last run.
  PairSearch(const Problem& problem, const Pairs& pairs, const std::vector<Clique>& cliques, std::uint64_t seed,
             ProofTree* tree = nullptr);

  Decision run(Bytes capacity, const RunLimits& limits);

  // Per item of the pairs, after `found`.
  std::span<const Bytes> offsets() const { return offsets_; }

  // Pairs of items that can be exchanged. The search lets the second lie no lower than the first.
  std::span<const std::pair<Index, Index>> ordered() const { return ordered_; }

  std::int64_t work() const { return work_; }

 private:
  using Table = std::vector<Bytes>;

  struct Member {
    Index item;
    Bytes begin, end;
    Bytes padding;  // from its end to where the next member may begin
  };
  struct Choice {
    Index i, j;
    Bytes below, above;  // the difference is at most `below`, or at least `above`
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
  std::vector<std::pair<Index, Index>> ordered_;
  Index mirror_i_ = kNone, mirror_j_ = kNone;  // their order is fixed: a plan may be turned upside down
  std::vector<double> failures_;               // per pair
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
