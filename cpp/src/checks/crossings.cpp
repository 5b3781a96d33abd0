#include "memplan/crossings.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

// Bytes [begin, end) of the arena that a tensor or buffer uses at some time; a workspace is none of these.
struct BytesInUse {
  const char* what;
  std::string_view name;
  Index thing;  // the tensor or buffer; kNone for a workspace
  Bytes begin;
  Bytes end;
};

std::string span_text(Bytes begin, Bytes end) { return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")"; }

using Edges = std::vector<std::vector<Index>>;

// Marks what edges lead to.
void reach(const Edges& edges, std::vector<Index> from, std::vector<bool>& seen) {
  for (const Index t : from) seen[at(t)] = true;
  while (!from.empty()) {
    const Index here = from.back();
    from.pop_back();
    for (const Index next : edges[at(here)]) {
      if (seen[at(next)]) continue;
      seen[at(next)] = true;
      from.push_back(next);
    }
  }
}

std::vector<Index> marked(const std::vector<bool>& seen) {
  std::vector<Index> found;
  for (std::size_t t = 0; t < seen.size(); ++t)
    if (seen[t]) found.push_back(static_cast<Index>(t));
  return found;
}

// What the graph says must lie in the bytes of a tensor, or may show them as they are.
class Belonging {
 public:
  explicit Belonging(const Graph& graph)
      : near_(at(graph.tensor_count())), before_(near_), after_(near_), shown_(near_) {
    for (const Op& op : graph.ops()) {
      for (const auto* views : {&op.aliases, &op.overwrites})
        for (const View& view : *views) {
          near_[at(view.output)].push_back(view.input);
          near_[at(view.input)].push_back(view.output);
        }
      for (const auto* views : {&op.aliases, &op.overwrites, &op.inplace})
        for (const View& view : *views) {
          before_[at(view.output)].push_back(view.input);
          after_[at(view.input)].push_back(view.output);
        }
      for (const auto* views : {&op.aliases, &op.slices})
        for (const View& view : *views) shown_[at(view.input)].push_back(view.output);
    }
  }

  // Per tensor, whether it may use the bytes of these. Nothing that is written over a slice may.
  std::vector<bool> of(const std::vector<Index>& tensors) const {
    std::vector<bool> own(near_.size(), false);
    if (tensors.size() > 1) {
      std::vector<bool> after(near_.size(), false);
      reach(before_, tensors, own);
      reach(after_, tensors, after);
      for (std::size_t t = 0; t < own.size(); ++t) own[t] = own[t] && after[t];
    }
    for (const Index t : tensors) own[at(t)] = true;
    std::vector<bool> fixed(near_.size(), false), shown(near_.size(), false);
    reach(near_, marked(own), fixed);
    reach(shown_, marked(fixed), shown);
    return shown;
  }

 private:
  Edges near_, before_, after_, shown_;
};

class MethodCheck {
 public:
  MethodCheck(const PlacedMethod& method, std::size_t position, std::vector<std::string>& faults)
      : method_(method), position_(position), faults_(faults) {
    if (method.graph != nullptr)
      add_tensors(*method.graph);
    else
      add_buffers(*method.problem);
  }

  void run(std::span<const PlacedStaying> shared, Bytes peak) {
    for (const BytesInUse& region : regions_)
      if (region.end > peak)
        say(described(region) + " ends at " + std::to_string(region.end) + ", beyond the arena of " +
            std::to_string(peak) + " bytes");
    const std::vector<std::vector<std::size_t>> users = users_of(shared);
    for (std::size_t s = 0; s < shared.size(); ++s) check(shared[s], users[s]);
  }

 private:
  void say(const std::string& what) { faults_.push_back("method " + quoted(method_.name) + ": " + what); }

  static std::string described(const BytesInUse& region) {
    return std::string(region.what) + " " + quoted(region.name);
  }

  void add_tensors(const Graph& graph) {
    const Addresses& lies = method_.addresses;
    region_of_.assign(at(graph.tensor_count()), std::nullopt);
    for (Index t = 0; t < graph.tensor_count(); ++t) {
      const Tensor& tensor = graph.tensor(t);
      if (lies.tensor[at(t)] == kNotPlaced || (!lies.region.empty() && lies.region[at(t)] != kNone)) continue;
      region_of_[at(t)] = regions_.size();
      regions_.push_back(
          {"tensor", tensor.name, t, lies.tensor[at(t)], saturated_add(lies.tensor[at(t)], tensor.bytes)});
    }
    for (Index k = 0; k < graph.op_count(); ++k)
      if (const Bytes offset = lies.workspace[at(k)]; offset != kNotPlaced)
        regions_.push_back(
            {"workspace", graph.op(k).name, kNone, offset, saturated_add(offset, graph.op(k).workspace)});
  }

  void add_buffers(const Problem& problem) {
    names_.reserve(at(problem.count()));
    region_of_.assign(at(problem.count()), std::nullopt);
    for (Index b = 0; b < problem.count(); ++b) names_.push_back(problem.name(b));
    for (Index b = 0; b < problem.count(); ++b) {
      buffer_of_.emplace(names_[at(b)], b);
      const Bytes offset = method_.offsets[at(b)];
      problem.for_each_part(b, [&](const Part& part) {
        region_of_[at(b)] = regions_.size();
        regions_.push_back(
            {"buffer", names_[at(b)], b, saturated_add(offset, part.begin), saturated_add(offset, part.end)});
      });
    }
  }

  std::optional<Index> find(const std::string& name) const {
    if (method_.graph != nullptr) return method_.graph->find(name);
    const auto found = buffer_of_.find(name);
    return found == buffer_of_.end() ? std::nullopt : std::optional(found->second);
  }

  // Per shared tensor, the regions that share bytes with it. These may overlap in a plan that is wrong.
  std::vector<std::vector<std::size_t>> users_of(std::span<const PlacedStaying> shared) const {
    std::vector<std::size_t> by_begin;
    for (std::size_t s = 0; s < shared.size(); ++s)
      if (shared[s].bytes > 0) by_begin.push_back(s);
    std::ranges::stable_sort(by_begin, {}, [&](std::size_t s) { return shared[s].offset; });
    std::vector<Bytes> highest_end;  // up to there
    for (const std::size_t s : by_begin)
      highest_end.push_back(std::max(highest_end.empty() ? 0 : highest_end.back(), shared[s].offset + shared[s].bytes));
    std::vector<std::vector<std::size_t>> users(shared.size());
    for (std::size_t r = 0; r < regions_.size(); ++r) {
      const BytesInUse& region = regions_[r];
      auto k = std::ranges::lower_bound(by_begin, region.end, {}, [&](std::size_t s) { return shared[s].offset; }) -
               by_begin.begin();
      for (; k > 0 && highest_end[at(k - 1)] > region.begin; --k) {
        const PlacedStaying& stays = shared[by_begin[at(k - 1)]];
        if (std::max(region.begin, stays.offset) < std::min(region.end, stays.offset + stays.bytes))
          users[by_begin[at(k - 1)]].push_back(r);
      }
    }
    return users;
  }

  void check(const PlacedStaying& stays, const std::vector<std::size_t>& users) {
    std::vector<Index> own;
    const std::string where = span_text(stays.offset, stays.offset + stays.bytes), must = "; it must be at " + where;
    for (const std::string& name : stays.tensors[position_]) {
      const std::optional<Index> thing = find(name);
      if (thing) own.push_back(*thing);
      const std::string what = quoted(name) + ", which is shared as " + quoted(stays.name) + ", ";
      if (!thing || !region_of_[at(*thing)]) {
        say(what + "has no place" + must);
        continue;
      }
      const BytesInUse& found = regions_[*region_of_[at(*thing)]];
      if (found.begin != stays.offset || found.end != stays.offset + stays.bytes)
        say(what + "is at " + span_text(found.begin, found.end) + must);
    }
    std::vector<bool> belongs;
    for (const std::size_t r : users) {
      const BytesInUse& region = regions_[r];
      if (region.thing != kNone && std::ranges::find(own, region.thing) != own.end()) continue;
      if (region.thing != kNone && method_.graph != nullptr && !own.empty()) {
        if (!belonging_) belonging_.emplace(*method_.graph);
        if (belongs.empty()) belongs = belonging_->of(own);
        if (belongs[at(region.thing)]) continue;
      }
      say(described(region) + " uses the bytes " + span_text(region.begin, region.end) + ", but " + where +
          " are those of " + quoted(stays.name) + ", which stays");
    }
  }

  const PlacedMethod& method_;
  const std::size_t position_;
  std::vector<std::string>& faults_;
  std::vector<BytesInUse> regions_;
  std::vector<std::optional<std::size_t>> region_of_;  // per tensor or buffer
  std::vector<std::string> names_;                     // of buffers
  std::unordered_map<std::string_view, Index> buffer_of_;
  std::optional<Belonging> belonging_;
};

}  // namespace

std::vector<std::string> crossings(std::span<const PlacedMethod> methods, std::span<const PlacedStaying> shared,
                                   Bytes peak) {
  std::vector<std::string> faults;
  for (std::size_t m = 0; m < methods.size(); ++m) MethodCheck(methods[m], m, faults).run(shared, peak);
  return faults;
}

}  // namespace memplan
