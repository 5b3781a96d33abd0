#include "pools/fixed.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "memplan/errors.hpp"
#include "memplan/parameters.hpp"

namespace memplan {

namespace {

constexpr Bytes kAddresses = Bytes{1} << 62;  // of the arena in which pools are spread out

using Pins = std::vector<std::pair<std::string, Bytes>>;

std::size_t position_of(std::span<const Pool> pools, const std::string& name, const std::string& where) {
  for (std::size_t p = 0; p < pools.size(); ++p)
    if (pools[p].name == name) return p;
  throw ProblemError(where + " names pool " + quoted(name) + ", which is none of " +
                     listed(pools, [](const Pool& pool) { return quoted(pool.name); }));
}

std::string pair_text(const std::string& name, Bytes begin, const std::string& rest = "") {
  return "(" + quoted(name) + ", " + std::to_string(begin) + rest + ")";
}

std::shared_ptr<const Graph> with_fixed(const Graph& graph, Pins pins, std::vector<Reserved> reserved) {
  GraphSpec spec{graph.tensors(), {}, {}, {}};
  for (const Op& op : graph.ops()) spec.ops.push_back(spec_of(graph, op));
  for (const Index t : graph.outputs()) spec.outputs.push_back(graph.tensor(t).name);
  const Layout& old = graph.layout();
  spec.layout = {std::move(pins), std::move(reserved), old.together, old.apart, old.exclude};
  return std::make_shared<const Graph>(std::move(spec));
}

// Of each pool, what is below its end there.
std::vector<Reserved> below(std::span<const ReservedInPool> reserved, const auto& begin_of, const auto& end_of) {
  std::vector<Reserved> rows;
  for (const auto& [pool, range] : reserved)
    if (range.begin < end_of(pool))
      rows.push_back(
          {begin_of(pool) + range.begin, begin_of(pool) + std::min(range.end, end_of(pool)), range.first, range.last});
  return rows;
}

std::vector<Reserved> reserved_where(std::span<const ReservedInPool> reserved, std::span<const UsedPool> pools) {
  return below(reserved, [&](std::size_t p) { return pools[p].begin; }, [&](std::size_t p) { return pools[p].peak; });
}

}  // namespace

std::vector<NamedPin> pins_in(std::span<const Pool> pools, const Layout& layout, const TakesName& takes) {
  std::vector<NamedPin> pins;
  for (const auto& [name, pool, offset] : layout.pool_pins)
    pins.push_back({name, position_of(pools, pool, "pin[" + quoted(name) + "]"), offset});
  for (const auto& [name, offset] : layout.pins) {
    std::vector<std::size_t> taken;
    for (std::size_t p = 0; p < pools.size(); ++p)
      if (takes(name, p)) taken.push_back(p);
    if (taken.size() != 1)
      throw ProblemError("pin[" + quoted(name) + "] must say in which of the pools, as in " +
                         pair_text(pools[0].name, offset) + ", got " + std::to_string(offset) + ": " +
                         (taken.empty() ? "no pool takes it" : std::to_string(taken.size()) + " pools take it"));
    pins.push_back({name, taken[0], offset});
  }
  return pins;
}

std::vector<ReservedInPool> reserved_in(std::span<const Pool> pools, const Layout& layout) {
  if (!layout.reserved.empty() && pools.size() > 1) {
    const Reserved& row = layout.reserved[0];
    const std::string end = ", " + std::to_string(row.end);
    throw ProblemError("reserved must say in which of the pools, as in " + pair_text(pools[0].name, row.begin, end) +
                       ", got (" + std::to_string(row.begin) + end + ")");
  }
  std::vector<ReservedInPool> rows;
  for (const Reserved& range : layout.reserved) rows.push_back({0, range});
  for (const auto& [pool, range] : layout.pool_reserved) rows.push_back({position_of(pools, pool, "reserved"), range});
  for (std::size_t p = 0; p < pools.size(); ++p)
    for (const Reserved& range : pools[p].reserved) rows.push_back({p, range});
  return rows;
}

Problem stacked(const Problem& problem, const FixedInPools& fixed, std::span<const UsedPool> pools) {
  if (fixed.empty()) return problem;
  std::vector<Bytes> pins(at(problem.count()), kNowhere);
  for (const auto& [buffer, pool, offset] : fixed.pins) pins[at(buffer)] = pools[pool].begin + offset;
  return problem.with_pins(std::move(pins), reserved_where(fixed.reserved, pools));
}

SpreadOut::SpreadOut(std::span<const Pool> pools, std::shared_ptr<const Graph> graph, const TakesName& takes,
                     Bytes alignment)
    : pools_(pools),
      reserved_(reserved_in(pools, graph->layout())),
      span_(align_down(kAddresses / static_cast<Bytes>(pools.size()), alignment)),
      graph_(std::move(graph)) {
  Pins pins;
  for (const auto& [name, pool, offset] : pins_in(pools, graph_->layout(), takes)) {
    if (offset < 0 || offset >= span_)
      throw ProblemError("pin[" + quoted(name) + "] must be " +
                         (offset < 0 ? ">= 0" : "below " + std::to_string(span_) + " in plans in several pools") +
                         ", got " + std::to_string(offset));
    pins.emplace_back(name, static_cast<Bytes>(pool) * span_ + offset);
  }
  is_fixed_ = !pins.empty() || !reserved_.empty();
  if (is_fixed_)
    graph_ = with_fixed(*graph_, std::move(pins),
                        below(
                            reserved_, [&](std::size_t p) { return static_cast<Bytes>(p) * span_; },
                            [&](std::size_t) { return span_; }));
}

SpreadOut::Made SpreadOut::buffers(const Graph& graph, const StorageOptions& storage) const {
  const auto made = [&] {
    try {
      return buffers_of(graph, storage);
    } catch (const std::invalid_argument&) {
      if (is_fixed_) check_each(graph, storage);
      throw;
    }
  };
  Buffers buffers = made();
  if (!is_fixed_) return {buffers, buffers.problem, {}};
  const Problem& problem = buffers.problem;
  FixedInPools fixed{{}, reserved_};
  for (Index b = 0; b < problem.count(); ++b)
    if (const Bytes pin = problem.pin(b); pin != kNowhere)
      fixed.pins.push_back({b, static_cast<std::size_t>(pin / span_), pin % span_});
  Problem plain = problem.with_pins({});
  return {std::move(buffers), std::move(plain), std::move(fixed)};
}

// Throws what is wrong in one pool, at offsets there.
void SpreadOut::check_each(const Graph& graph, const StorageOptions& storage) const {
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    Pins pins;
    for (const auto& [name, offset] : graph.layout().pins)
      if (static_cast<std::size_t>(offset / span_) == p) pins.emplace_back(name, offset % span_);
    std::vector<Reserved> reserved;
    for (const auto& row : reserved_)
      if (row.pool == p) reserved.push_back(row.range);
    const std::string where = "pool " + quoted(pools_[p].name) + ": ";
    try {
      buffers_of(*with_fixed(graph, std::move(pins), std::move(reserved)), storage);
    } catch (const GraphError& error) {
      throw GraphError(where + error.what());
    } catch (const ProblemError& error) {
      throw ProblemError(where + error.what());
    }
  }
}

std::shared_ptr<const Graph> SpreadOut::stacked(const std::shared_ptr<const Graph>& graph,
                                                std::span<const UsedPool> pools) const {
  if (!is_fixed_) return graph;
  Pins pins;
  for (const auto& [name, offset] : graph->layout().pins)
    pins.emplace_back(name, pools[static_cast<std::size_t>(offset / span_)].begin + offset % span_);
  return with_fixed(*graph, std::move(pins), reserved_where(reserved_, pools));
}

}  // namespace memplan
