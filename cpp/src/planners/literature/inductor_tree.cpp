// inductor_tree: puts buffers, the largest first and the longest-lived among equals, into a tree that cuts one block of
// memory in time and in space.
//
//     offset ▲ ┌─ B ─┐ ┌─ D ─┐        T: parts of time, one after another in the same bytes
//            │ ├─────┴┬┴─────┤           ├ S: two ranges of bytes, the upper on the aligned end of the lower
//            │ │  A   │  C   │           │  ├ T: A, C
//            └─┴──────┴──────┴─▶ step    │  └ T: B, D
//
// A buffer whose life overlaps no part of a T becomes a part of its own. If it overlaps a single part, it is tried
// inside this part, in the lower bytes, then in the upper. If it overlaps several parts, it fails there, however much
// room there is. Only the topmost bytes may grow. If nothing takes the buffer, the whole tree becomes the lower bytes
// of a new tree, with the buffer above it. A buffer above others stands on the highest of them, even if they are not
// alive together, which leaves gaps.
//
// Lower bytes are rounded up to the alignment, which is 64 in torch. Of several alignments, the largest counts while
// the tree is built. Final offsets respect each buffer's own.
//
// torch descends recursively, and fails on trees deeper than Python's stack; here nothing recurses. As in torch with
// torch._inductor.config.memory_pool = "combined", outputs have no pools of their own.
//
// Complexity: O(n^2) for a tree that is searched in whole, which is rare. Guarantee: none.
// Source: PyTorch, torch/_inductor/codegen/memory_planning.py; the document on torch memory planning.
#include <algorithm>
#include <vector>

#include "planners/planners.hpp"
#include "problem/orders.hpp"

namespace memplan {

namespace {

using Node = std::int32_t;  // position in temporal_ or spatial_

// What is in a part of time: a buffer, or a spatial split.
struct Occupant {
  Index buffer = kNone;
  Node split = kNone;
};

// Steps in which a part of a temporal split is in use.
struct Live {
  Step first;
  Step last;
  std::size_t part;
};

struct TemporalSplit {
  Bytes size = 0;               // as planned: with the bytes that are kept for smaller buffers
  std::vector<Occupant> parts;  // none: only room
  std::vector<Live> live;       // of all parts; disjoint, ascending
  Node parent = kNone;          // the spatial split that it is a half of
};

struct SpatialSplit {
  Node lower = kNone;
  Node upper = kNone;
  Node parent = kNone;  // the temporal split that it is in, and which part it is there
  std::size_t part = 0;
};

class Tree {
 public:
  Tree(const Problem& problem, std::span<const Index> buffers, const Deadline& deadline)
      : problem_(problem), deadline_(deadline) {
    for (Index i : buffers) alignment_ = std::max(alignment_, problem.alignment(i));
  }

  void allocate(Index i) {
    if (root_ == kNone) {
      root_ = new_temporal(problem_.size(i));
      append(root_, {i, kNone});
      note_live(root_, i, 0);
    } else if (!allocate_inside(i)) {
      put_on_top(i);
    }
  }

  std::vector<Bytes> offsets() const;

 private:
  // A temporal split to look into, and whether it may grow.
  struct Attempt {
    Node split;
    bool may_grow;
  };

  // A temporal split whose parts are being given their offsets.
  struct Visit {
    Node split;
    Bytes begin;
    Bytes end;              // of the parts that have theirs
    std::size_t part = 0;   // the one in turn
    bool in_upper = false;  // of that part
  };

  TemporalSplit& temporal(Node t) { return temporal_[at(t)]; }
  const TemporalSplit& temporal(Node t) const { return temporal_[at(t)]; }
  SpatialSplit& spatial(Node s) { return spatial_[at(s)]; }
  const SpatialSplit& spatial(Node s) const { return spatial_[at(s)]; }

  bool allocate_inside(Index i);
  void put_on_top(Index i);
  void place(Node t, Index i);
  void widen(Node t, Bytes extra);
  void propagate(Node t, Index i);

  Node new_temporal(Bytes size);
  Node new_spatial(Node lower, Node upper);
  Node with_room(Occupant occupant, std::vector<Live> live, Bytes room);
  void append(Node t, Occupant occupant);
  void set_part(Node t, std::size_t part, Occupant occupant);
  void note_live(Node t, Index i, std::size_t part);

  Bytes size(const Occupant& occupant) const;
  void leave(std::vector<Visit>& path) const;

  const Problem& problem_;
  const Deadline& deadline_;
  Bytes alignment_ = 1;  // the largest of all
  std::vector<TemporalSplit> temporal_;
  std::vector<SpatialSplit> spatial_;
  Node root_ = kNone;
};

// Planned sizes only steer; room that is kept again and again could add up to more than int64.
Bytes saturated_align_up(Bytes size, Bytes alignment) {
  const Bytes excess = size % alignment;
  return excess == 0 ? size : saturated_add(size, alignment - excess);
}

// The parts in use at any step of the buffer's life: none, one, or several.
enum class Meeting { kNothing, kOne, kSeveral };

std::pair<Meeting, std::size_t> overlap(const TemporalSplit& split, Step first, Step last) {
  auto at = std::partition_point(split.live.begin(), split.live.end(), [&](const Live& l) { return l.last <= first; });
  if (at == split.live.end() || at->first >= last) return {Meeting::kNothing, 0};
  const std::size_t part = at->part;
  for (++at; at != split.live.end() && at->first < last; ++at)
    if (at->part != part) return {Meeting::kSeveral, 0};
  return {Meeting::kOne, part};
}

// Looks below the root, lower bytes before upper ones, until a temporal split takes the buffer.
bool Tree::allocate_inside(Index i) {
  std::vector<Attempt> waiting = {{root_, true}};
  while (!waiting.empty()) {
    const auto [t, may_grow] = waiting.back();
    waiting.pop_back();
    deadline_.tick();
    if (!may_grow && problem_.size(i) > temporal(t).size) continue;
    const auto [found, part] = overlap(temporal(t), problem_.first(i), problem_.last(i));
    if (found == Meeting::kNothing) {
      place(t, i);
      return true;
    }
    const Node inside = found == Meeting::kOne ? temporal(t).parts[part].split : kNone;
    if (inside == kNone) continue;
    waiting.push_back({spatial(inside).upper, may_grow});
    waiting.push_back({spatial(inside).lower, false});
  }
  return false;
}

// The tree so far and the buffer above it become the halves of a new tree.
void Tree::put_on_top(Index i) {
  std::vector<Live> live = temporal(root_).live;
  deadline_.tick(live.size());
  for (Live& range : live) range.part = 0;
  const Node upper = new_temporal(problem_.size(i));
  append(upper, {i, kNone});
  note_live(upper, i, 0);
  const Node split = new_spatial(root_, upper);
  root_ = new_temporal(0);
  temporal(root_).live = std::move(live);
  append(root_, {kNone, split});
  propagate(upper, i);
}

// The buffer becomes a part of its own.
void Tree::place(Node t, Index i) {
  const Bytes size = problem_.size(i);
  const Bytes slot = temporal(t).size;
  if (slot < size) widen(t, size - slot);
  const Live life{problem_.first(i), problem_.last(i), 0};
  append(t, slot > size ? Occupant{kNone, with_room({i, kNone}, {life}, slot - size)} : Occupant{i, kNone});
  note_live(t, i, temporal(t).parts.size() - 1);
  propagate(t, i);
}

// Adds that much room above each part.
void Tree::widen(Node t, Bytes extra) {
  for (std::size_t part = 0; part < temporal(t).parts.size(); ++part) {
    std::vector<Live> live;
    deadline_.tick(1 + temporal(t).live.size());
    for (const Live& range : temporal(t).live)
      if (range.part == part) live.push_back({range.first, range.last, 0});
    set_part(t, part, {kNone, with_room(temporal(t).parts[part], std::move(live), extra)});
  }
}

// Tells those above a temporal split that the buffer has come into it.
void Tree::propagate(Node t, Index i) {
  for (Node s = temporal(t).parent; s != kNone; s = temporal(t).parent) {
    deadline_.tick();
    t = spatial(s).parent;
    note_live(t, i, spatial(s).part);
    temporal(t).size = std::max(temporal(t).size, size({kNone, s}));
  }
}

Node Tree::new_temporal(Bytes size) {
  temporal_.push_back({size, {}, {}, kNone});
  return static_cast<Node>(temporal_.size()) - 1;
}

Node Tree::new_spatial(Node lower, Node upper) {
  spatial_.push_back({lower, upper, kNone, 0});
  const Node s = static_cast<Node>(spatial_.size()) - 1;
  temporal(lower).parent = s;
  temporal(upper).parent = s;
  return s;
}

// A spatial split of the occupant, live then, and room above it.
Node Tree::with_room(Occupant occupant, std::vector<Live> live, Bytes room) {
  const Node lower = new_temporal(0);
  temporal(lower).live = std::move(live);
  append(lower, occupant);
  return new_spatial(lower, new_temporal(room));
}

void Tree::append(Node t, Occupant occupant) {
  temporal(t).parts.emplace_back();
  set_part(t, temporal(t).parts.size() - 1, occupant);
}

void Tree::set_part(Node t, std::size_t part, Occupant occupant) {
  temporal(t).parts[part] = occupant;
  temporal(t).size = std::max(temporal(t).size, size(occupant));
  if (occupant.split == kNone) return;
  spatial(occupant.split).parent = t;
  spatial(occupant.split).part = part;
}

// The part is in use in the buffer's life too; its ranges that meet become one.
void Tree::note_live(Node t, Index i, std::size_t part) {
  std::vector<Live>& live = temporal(t).live;
  deadline_.tick(1 + live.size() / 64);  // moved, where the range is new
  Live range{problem_.first(i), problem_.last(i), part};
  auto begin = std::partition_point(live.begin(), live.end(), [&](const Live& l) { return l.last < range.first; });
  if (begin != live.end() && begin->part != part && begin->last == range.first) ++begin;
  auto end = begin;
  for (; end != live.end() && end->first <= range.last && end->part == part; ++end) {
    range.first = std::min(range.first, end->first);
    range.last = std::max(range.last, end->last);
  }
  if (begin == end) {
    live.insert(begin, range);
  } else {
    *begin = range;
    live.erase(begin + 1, end);
  }
}

Bytes Tree::size(const Occupant& occupant) const {
  if (occupant.split == kNone) return problem_.size(occupant.buffer);
  const SpatialSplit& split = spatial(occupant.split);
  return saturated_add(saturated_align_up(temporal(split.lower).size, alignment_), temporal(split.upper).size);
}

// From below to above: upper bytes begin where those below them end, each buffer at the next multiple of its
// alignment. Room that nobody came to use is left out.
std::vector<Bytes> Tree::offsets() const {
  std::vector<Bytes> offsets(problem_.size().size(), 0);
  std::vector<Visit> path;
  if (root_ != kNone) path.push_back({root_, 0, 0});
  while (!path.empty()) {
    deadline_.tick();
    Visit& visit = path.back();
    if (visit.part == temporal(visit.split).parts.size()) {
      leave(path);
      continue;
    }
    const Occupant& occupant = temporal(visit.split).parts[visit.part];
    if (occupant.split != kNone) {
      path.push_back({spatial(occupant.split).lower, visit.begin, visit.begin});
      continue;
    }
    Bytes& offset = offsets[at(occupant.buffer)];
    offset = align_up(visit.begin, problem_.alignment(occupant.buffer));
    visit.end = std::max(visit.end, offset + problem_.size(occupant.buffer));
    ++visit.part;
  }
  return offsets;
}

// From lower bytes on to the upper ones, from there back to the temporal split around both.
void Tree::leave(std::vector<Visit>& path) const {
  const Bytes end = path.back().end;
  path.pop_back();
  if (path.empty()) return;
  Visit& around = path.back();
  around.in_upper = !around.in_upper;
  if (around.in_upper) {
    const Occupant& occupant = temporal(around.split).parts[around.part];
    path.push_back({spatial(occupant.split).upper, end, end});
  } else {
    around.end = std::max(around.end, end);
    ++around.part;
  }
}

std::vector<Index> by_size_and_life(const Problem& problem, const Deadline& deadline) {
  const auto life = [&](Index i) { return length_of_life(problem, i); };
  std::vector<Index> order = with_bytes(problem);
  std::stable_sort(order.begin(), order.end(), deadline.ticking([&](Index a, Index b) {
    return problem.size(a) != problem.size(b) ? problem.size(a) > problem.size(b) : life(a) > life(b);
  }));
  return order;
}

}  // namespace

Placement inductor_tree(const Problem& problem, const PlanOptions& options) {
  const Deadline deadline(options);
  const std::vector<Index> order = by_size_and_life(problem, deadline);
  Tree tree(problem, order, deadline);
  for (Index i : order) tree.allocate(i);
  Placement placement;
  placement.offsets = tree.offsets();
  return placement;
}

}  // namespace memplan
