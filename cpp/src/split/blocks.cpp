#include "split/blocks.hpp"

#include <algorithm>
#include <map>

namespace memplan {

namespace {

// What one pass of a region writes, if the region leaves blocks: by tensor, the axes of its rows.
std::map<Index, Axes> may_stay(const Graph& graph, std::span<const RegionRows> regions) {
  std::map<Index, Axes> found;
  for (const RegionRows& rows : regions) {
    if (!rows.region.blocks) continue;
    for (const auto& [t, made] : rows.made) {
      const auto writes = [&](const Pass& pass) {
        const auto uses = pass.uses.find(t);
        return uses != pass.uses.end() && !uses->second.written.empty();
      };
      if (made.leaves && !rows.is_view[at(made.maker)] && graph.tensor(t).kind == TensorKind::intermediate &&
          std::ranges::count_if(rows.passes, writes) == 1)
        found.emplace(t, made.axes);
    }
  }
  return found;
}

// Whether an op of this region reads an input by such rows of a tensor that another region makes.
bool reads_rows(const RegionRows& rows, Index k, Index input, const Axes& axes) {
  const std::size_t r = at(rows.position.at(k));
  if (rows.made.contains(rows.op(r).inputs[at(input)])) return false;
  const Loop& loop = rows.loop(r);
  const auto needs_early = [&](const EarlyOutput& early) {
    return std::ranges::find(early.inputs, input) != early.inputs.end();
  };
  if (std::ranges::any_of(loop.early, needs_early)) return false;
  const auto read = std::ranges::find(loop.reads, input, &LoopRead::input);
  return read != loop.reads.end() && read->axes == axes;
}

}  // namespace

std::vector<Index> tensors_in_blocks(const Graph& graph, std::span<const RegionRows> regions,
                                     std::span<const Index> region_of) {
  std::map<Index, Axes> stays = may_stay(graph, regions);
  for (Index k = 0; k < graph.op_count() && !stays.empty(); ++k) {
    const Op& op = graph.op(k);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const auto found = stays.find(op.inputs[i]);
      if (found == stays.end()) continue;
      const Index region = region_of[at(k)];
      if (region == kNone || !reads_rows(regions[at(region)], k, static_cast<Index>(i), found->second))
        stays.erase(found);
    }
  }
  std::vector<Index> found;
  for (const auto& [t, axes] : stays) found.push_back(t);
  return found;
}

}  // namespace memplan
