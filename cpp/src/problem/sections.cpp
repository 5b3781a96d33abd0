#include "problem/sections.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "problem/orders.hpp"
#include "problem/section_lives.hpp"

namespace memplan {

Sections::Sections(const Problem& problem, const Deadline& deadline) {
  struct Item {
    Index first, last;
    Bytes size, alignment;
    Index buffer;

    auto look() const { return std::tie(first, last, size, alignment); }
  };
  constexpr std::size_t kTicksPerItem = 16;
  const SectionLives lives = section_lives(problem, deadline);
  std::vector<Item> rows;
  for (Index i : with_bytes(problem)) {
    deadline.tick(kTicksPerItem);
    rows.push_back({lives.begin[at(i)], lives.end[at(i)], problem.size(i), problem.alignment(i), i});
  }
  std::sort(rows.begin(), rows.end(), deadline.ticking([](const Item& a, const Item& b) {
    return a.look() != b.look() ? a.look() < b.look() : a.buffer < b.buffer;
  }));

  count = lives.sections();
  begins.assign(at(count) + 1, 0);
  for (const Item& row : rows) {
    deadline.tick(kTicksPerItem);
    const Index item = items();
    const bool same = item > 0 && row.look() == rows[at(item) - 1].look();
    twin.push_back(same ? twin.back() : item);
    buffer.push_back(row.buffer);
    first.push_back(row.first);
    last.push_back(row.last);
    size.push_back(row.size);
    padding.push_back(0);
    alignment.push_back(row.alignment);
    ++begins[at(row.first) + 1];
  }
  for (std::size_t s = 1; s < begins.size(); ++s) begins[s] += begins[s - 1];
  if (std::any_of(alignment.begin(), alignment.end(), [](Bytes a) { return a > 1; })) pad(deadline);
  add_up(deadline);
}

void Sections::begin_from(std::vector<Bytes> offsets) {
  lowest = std::move(offsets);
  Index group = kNone;  // of items that are identical but for that
  std::vector<Index> first_of_group;
  const auto is_same = [&](Index a, Index b) {
    return first[at(a)] == first[at(b)] && last[at(a)] == last[at(b)] && size[at(a)] == size[at(b)] &&
           alignment[at(a)] == alignment[at(b)];
  };
  for (Index x = 0; x < items(); ++x) {
    if (group == kNone || !is_same(group, x)) {
      group = x;
      first_of_group.clear();
    }
    const auto same = std::find_if(first_of_group.begin(), first_of_group.end(),
                                   [&](Index other) { return lowest[at(other)] == lowest[at(x)]; });
    twin[at(x)] = same == first_of_group.end() ? x : *same;
    if (same == first_of_group.end()) first_of_group.push_back(x);
  }
}

// O(sections covered in all).
void Sections::pad(const Deadline& deadline) {
  std::vector<Bytes> divisor(static_cast<std::size_t>(count), 0);
  for (Index x = 0; x < items(); ++x) {
    deadline.tick(at(last[x] - first[x]));
    for (Index s = first[x]; s < last[x]; ++s) divisor[s] = std::gcd(divisor[s], alignment[x]);
  }
  for (Index x = 0; x < items(); ++x) {
    deadline.tick(at(last[x] - first[x]));
    Bytes common = 0;
    for (Index s = first[x]; s < last[x] && common != 1; ++s) common = std::gcd(common, divisor[s]);
    padding[x] = align_up(size[x], common) - size[x];
    size[x] += padding[x];
  }
}

void Sections::add_up(const Deadline& deadline) {
  load.assign(begins.size(), 0);  // at first, by how much it differs from the section before
  for (Index x = 0; x < items(); ++x) {
    load[first[x]] += size[x];
    load[last[x]] -= size[x];
    covered += last[x] - first[x];
  }
  load.pop_back();
  std::partial_sum(load.begin(), load.end(), load.begin());
  std::vector<Bytes> most(load.size(), 0);  // padding
  for (Index x = 0; x < items(); ++x) {
    if (padding[x] == 0) continue;
    deadline.tick(at(last[x] - first[x]));
    for (Index s = first[x]; s < last[x]; ++s) most[s] = std::max(most[s], padding[x]);
  }
  for (std::size_t s = 0; s < load.size(); ++s) load[s] -= most[s];
}

Bytes Sections::highest_load() const { return load.empty() ? 0 : *std::max_element(load.begin(), load.end()); }

}  // namespace memplan
