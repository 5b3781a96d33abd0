#include "base/groups.hpp"

#include <numeric>
#include <utility>

namespace memplan {

Groups::Groups(std::size_t count) : parent_(count), distance_(count, 0), size_(count, 1) {
  std::iota(parent_.begin(), parent_.end(), Index{0});
}

Index Groups::find(Index t) {
  Index top = t;
  Bytes distance = 0;
  while (parent_[at(top)] != top) {
    distance += distance_[at(top)];
    top = parent_[at(top)];
  }
  while (parent_[at(t)] != top && t != top) {  // all that were passed hang from the top now
    const Bytes rest = distance - distance_[at(t)];
    const Index next = parent_[at(t)];
    parent_[at(t)] = top;
    distance_[at(t)] = distance;
    distance = rest;
    t = next;
  }
  return top;
}

Bytes Groups::position(Index t) {
  find(t);
  return distance_[at(t)];
}

void Groups::unite(Index a, Index b, Bytes offset) {
  const Bytes apart = position(a) + offset - position(b);  // representative of b from that of a
  Index top = find(a);
  Index below = find(b);
  distance_[at(below)] = apart;
  if (size_[at(top)] < size_[at(below)]) {
    std::swap(top, below);
    distance_[at(below)] = -apart;
    distance_[at(top)] = 0;
  }
  parent_[at(below)] = top;
  size_[at(top)] += size_[at(below)];
}

}  // namespace memplan
