#include "search/sections.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace memplan {

namespace {

// The births that are followed by a death, ascending.
std::vector<Step> moments_of(const Problem& problem, const std::vector<Index>& buffers) {
  std::vector<Step> births, deaths;
  for (Index i : buffers) {
    births.push_back(problem.first(i));
    deaths.push_back(problem.last(i));
  }
  std::sort(births.begin(), births.end());
  std::sort(deaths.begin(), deaths.end());
  std::vector<Step> moments;
  std::size_t dead = 0;
  for (std::size_t born = 0; born < births.size(); ++born) {
    while (deaths[dead] <= births[born]) ++dead;
    if (born + 1 == births.size() || deaths[dead] <= births[born + 1]) moments.push_back(births[born]);
  }
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  return moments;
}

}  // namespace

Sections::Sections(const Problem& problem) {
  struct Item {
    Index first, last;
    Bytes size, alignment;
    Index buffer;

    auto look() const { return std::tie(first, last, size, alignment); }
  };
  std::vector<Index> buffers;
  for (Index i = 0; i < problem.count(); ++i)
    if (problem.size(i) > 0) buffers.push_back(i);
  const std::vector<Step> moments = moments_of(problem, buffers);
  const auto section = [&](Step step) {  // the first one at that step or later
    return static_cast<Index>(std::lower_bound(moments.begin(), moments.end(), step) - moments.begin());
  };
  std::vector<Item> rows;
  for (Index i : buffers)
    rows.push_back({section(problem.first(i)), section(problem.last(i)), problem.size(i), problem.alignment(i), i});
  std::sort(rows.begin(), rows.end(), [](const Item& a, const Item& b) {
    return a.look() != b.look() ? a.look() < b.look() : a.buffer < b.buffer;
  });

  count = static_cast<Index>(moments.size());
  begins.assign(moments.size() + 1, 0);
  for (const Item& row : rows) {
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
  if (std::any_of(alignment.begin(), alignment.end(), [](Bytes a) { return a > 1; })) pad();
  add_up();
}

// O(sections covered in all).
void Sections::pad() {
  std::vector<Bytes> divisor(static_cast<std::size_t>(count), 0);
  for (Index x = 0; x < items(); ++x)
    for (Index s = first[x]; s < last[x]; ++s) divisor[s] = std::gcd(divisor[s], alignment[x]);
  for (Index x = 0; x < items(); ++x) {
    Bytes common = 0;
    for (Index s = first[x]; s < last[x] && common != 1; ++s) common = std::gcd(common, divisor[s]);
    padding[x] = align_up(size[x], common) - size[x];
    size[x] += padding[x];
  }
}

void Sections::add_up() {
  load.assign(begins.size(), 0);  // at first, by how much it differs from the section before
  for (Index x = 0; x < items(); ++x) {
    load[first[x]] += size[x];
    load[last[x]] -= size[x];
    covered += last[x] - first[x];
  }
  load.pop_back();
  std::partial_sum(load.begin(), load.end(), load.begin());
  std::vector<Bytes> most(load.size(), 0);  // padding
  for (Index x = 0; x < items(); ++x)
    for (Index s = first[x]; padding[x] > 0 && s < last[x]; ++s) most[s] = std::max(most[s], padding[x]);
  for (std::size_t s = 0; s < load.size(); ++s) load[s] -= most[s];
}

Bytes Sections::highest_load() const { return load.empty() ? 0 : *std::max_element(load.begin(), load.end()); }

}  // namespace memplan
