// MaxTree: a row of byte counts, none negative, that knows the largest of any run.
//
//              9                 each node holds the largest value below it, what was added
//          ┌───┴───┐             to its whole run included
//          7       9
//        ┌─┴─┐   ┌─┴─┐
//        7   2   9   4
//
// O(log n) to add to a run, for the largest of a run, and for the first value that is large enough.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "memplan/units.hpp"

namespace memplan {

class MaxTree {
 public:
  explicit MaxTree(std::span<const Bytes> values);

  std::size_t size() const { return size_; }

  // Adds to the values of [begin, end).
  void add(std::size_t begin, std::size_t end, Bytes bytes) { add(root(), {begin, end}, bytes); }

  // The largest of [begin, end); 0 when it is empty.
  Bytes max(std::size_t begin, std::size_t end) const { return begin < end ? max(root(), {begin, end}) : 0; }

  // The first position in [begin, size()) whose value is >= least; size() if there is no such position.
  std::size_t first_at_least(std::size_t begin, Bytes least) const { return first_at_least(root(), begin, least); }

 private:
  struct Run {
    std::size_t begin;
    std::size_t end;
  };
  struct Node {
    std::size_t number;  // its children are 2 number and 2 number + 1
    Run run;

    bool is_leaf() const { return run.end - run.begin == 1; }
    std::size_t middle() const { return run.begin + (run.end - run.begin) / 2; }
    Node left() const { return {2 * number, {run.begin, middle()}}; }
    Node right() const { return {2 * number + 1, {middle(), run.end}}; }
    bool apart(Run other) const { return run.end <= other.begin || other.end <= run.begin; }
    bool inside(Run other) const { return other.begin <= run.begin && run.end <= other.end; }
  };

  Node root() const { return {1, {0, size_}}; }
  void build(Node node, std::span<const Bytes> values);
  void add(Node node, Run run, Bytes bytes);
  Bytes max(Node node, Run run) const;
  std::size_t first_at_least(Node node, std::size_t begin, Bytes least) const;

  std::size_t size_;
  std::vector<Bytes> largest_;  // per node, without the amounts added to the runs of its ancestors
  std::vector<Bytes> added_;    // per node, to its whole run
};

}  // namespace memplan
