#include "problem/rectangles.hpp"

#include <algorithm>
#include <map>

namespace memplan {

bool any_overlap(const std::vector<Rectangle>& rectangles) {
  std::vector<const Rectangle*> births, deaths;
  for (const Rectangle& rectangle : rectangles) births.push_back(&rectangle), deaths.push_back(&rectangle);
  std::sort(births.begin(), births.end(), [](const Rectangle* a, const Rectangle* b) { return a->first < b->first; });
  std::sort(deaths.begin(), deaths.end(), [](const Rectangle* a, const Rectangle* b) { return a->last < b->last; });
  std::map<Bytes, Bytes> alive;  // end by begin
  auto dead = deaths.begin();
  for (const Rectangle* born : births) {
    for (; (*dead)->last <= born->first; ++dead) alive.erase((*dead)->begin);
    const auto above = alive.lower_bound(born->begin);
    if (above != alive.end() && above->first < born->end) return true;
    if (above != alive.begin() && std::prev(above)->second > born->begin) return true;
    alive.emplace(born->begin, born->end);
  }
  return false;
}

}  // namespace memplan
