// Floors: how low the items without a place can still lie, kept up to date as items are placed and taken back.
//
//     height ▲                      the base of an item: the lowest aligned height above what is placed or ruled out
//            │ ┌────┐      ┌──┐     in its life. The floor of a section: the least base of the items that cover it; no
//            │ │    ├──────┤  │     item can lie lower there. The slack of a section, the bytes that it can still lose:
//            │ │    │▒▒▒▒▒▒│  │     capacity - floor - bytes of the items without a place there
//            └─┴────┴──────┴──┴─▶ section
//
// When an item is placed at its base, the bases of others rise to its top. If no item has its base at the floor of a
// section any more, the floor rises to the least base there. That costs slack. If slack became negative, no plan would
// be left. The bases determine the floors, and a floor that rises never raises a base, so one pass is enough.
//
// The items are kept in a tree over the S sections, each on O(log S) nodes; the items that cover a section are on one
// path. A node remembers a lower bound of the least base of its items, and computes the base only if the bound does not
// decide.
//
// Complexity: placing costs O(items that begin in its life + raised bases + log S per floor that loses its support).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memplan/problem.hpp"
#include "problem/sections.hpp"
#include "search/valley/trail.hpp"

namespace memplan {

class Floors {
 public:
  static constexpr Bytes kPlaced = kMaxBytes;  // the base of a placed item; the floor if no item is still to come

  Floors(const Sections& sections, const Deadline& deadline);

  // From now on nothing is placed; false if the load exceeds the capacity. O(n).
  bool reset(Bytes capacity);

  // Each returns false as soon as no plan is left. Call undo() then, or to take it back.
  bool place(Index item);                      // at its base
  bool rule_out(Index section, Bytes height);  // nothing that covers it lies below the height

  struct Mark {
    std::size_t items = 0, sections = 0, nodes = 0;
  };
  Mark mark() const { return {item_trail_.end(), section_trail_.end(), node_trail_.end()}; }
  void undo(const Mark& mark);
  void forget(const Mark& mark);  // nothing before it will be undone

  Bytes base(Index item) const { return base_[item]; }
  Bytes floor(Index section) const { return floor_[section]; }
  std::span<const Bytes> floors(Index begin, Index end) const {
    return std::span(floor_).subspan(at(begin), at(end - begin));
  }
  Bytes slack(Index section) const { return slack_[section]; }
  bool is_placed(Index item) const { return base_[item] == kPlaced; }

  // The sections in which the last place, rule_out or undo may have changed anything.
  Index changed_from() const { return from_; }
  Index changed_to() const { return to_; }

  // The cost of the floors that the last place or rule_out raised: the sum of their shares of the slack there.
  double waste() const { return waste_; }

  // After a place or rule_out that returned false: a section where no plan is left.
  Index dead_at() const { return dead_at_; }

  // Items whose base changed since a mark, with the old base.
  struct ItemChange {
    Index item;
    Bytes base;
  };
  std::span<const ItemChange> items_since(const Mark& mark) const { return item_trail_.since(mark.items); }

  // Steps of work done so far: a measure of time that is the same on every machine.
  std::int64_t work() const { return work_; }

 private:
  // The old state of a section. If `section` is kNone: the item `support` was placed, which until then supported the
  // floors of its sections at its base.
  struct SectionChange {
    Index section, support;
    Bytes floor, slack;
  };
  struct NodeChange {
    std::size_t node;
    Index lowest;
    Bytes bound;
  };

  void build_tree(const Deadline& deadline);
  Bytes aligned(Bytes height, Index item) const {
    const Bytes alignment = sections_.alignment[item];
    return alignment == 1 ? height : align_up(height, alignment);
  }
  void set_base(Index item, Bytes base) {
    item_trail_.push({item, base_[item]});
    base_[item] = base;
  }
  struct Node {
    std::size_t index;
    Index begin, end;  // sections
  };
  void look_again(std::size_t node);
  bool raise_floors(const Node& node, Index from, Index to, Index lowest);
  bool raise_floor(Index section, Index support);
  bool raise_to_lowest();
  bool repair();

  const Sections& sections_;
  Bytes capacity_ = 0;
  std::vector<Bytes> base_;  // per item, and kPlaced for an item that does not exist
  std::vector<Bytes> floor_, slack_;
  std::vector<Index> support_;  // per section: an item that covers it with its base at the floor
  std::size_t leaves_ = 1;
  std::vector<std::size_t> node_begin_;  // per node, and one more: where its items begin
  std::vector<Index> node_items_;
  std::vector<Index> node_lowest_;  // per node: an item with the least base
  std::vector<Bytes> node_bound_;   // per node: no base of its items is below
  Trail<ItemChange> item_trail_;
  Trail<SectionChange> section_trail_;
  Trail<NodeChange> node_trail_;
  Index from_ = 0, to_ = 0;
  Index dead_at_ = kNone;
  double waste_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace memplan
