#include "storage/buffer_layout.hpp"

#include <algorithm>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

// Where the tensors and workspaces of a layout's names are.
class LayoutByBuffer {
 public:
  LayoutByBuffer(const Graph& graph, const BufferPlaces& lies) : graph_(graph), lies_(lies) {}

  // The problem with what the layout asks for. Throws GraphError for names that are none of tensors or workspaces with
  // a place in the arena, and for tensors that share bytes where the layout forbids it.
  Problem problem() {
    const Layout& layout = graph_.layout();
    for (const PoolPin& pin : layout.pool_pins) refuse_pool("pin of " + quoted(pin.name), pin.pool);
    for (const PoolReserved& row : layout.pool_reserved) refuse_pool("reserved", row.pool);
    const Problem& plain = lies_.problem;
    pins_.assign(at(plain.count()), kNowhere);
    pinned_by_.assign(at(plain.count()), {});
    for (const auto& [name, pin] : layout.pins) add_pin(name, pin);
    std::vector<Together> together;
    for (const auto& row : layout.together) add_together(row, together);
    Problem problem = plain;
    if (!layout.apart.empty()) problem = problem.with_conflicts(conflicts());
    return problem.with_pins(std::move(pins_), reserved()).with_together(std::move(together));
  }

 private:
  struct Spot {
    Index buffer;
    Bytes inside;
  };

  [[noreturn]] static void refuse_pool(const std::string& what, const std::string& pool) {
    throw GraphError(what + " names pool " + quoted(pool) + ", and this plan is in one arena, without pools");
  }

  Spot find(const std::string& name, const char* option) const {
    if (const auto t = graph_.find(name)) {
      const Index b = lies_.buffer_of_tensor[at(*t)];
      if (b == kNone)
        throw GraphError(std::string(option) + " names " + quoted(name) + ", which has no place in the arena: it " +
                         why_outside(*t));
      return {b, lies_.offset_in_buffer[at(*t)]};
    }
    for (const Index b : lies_.buffer_of_workspace)
      if (b != kNone && lies_.problem.name(b) == name) return {b, 0};
    throw GraphError(std::string(option) + " must name tensors or workspaces of the graph, got " + quoted(name));
  }

  std::string why_outside(Index t) const {
    const Index root = lies_.root_of_tensor[at(t)];
    for (const std::string& name : graph_.layout().exclude) {
      const Index excluded = *graph_.find(name);
      if (excluded == t) return "is excluded";
      if (lies_.root_of_tensor[at(excluded)] == root)
        return "shares bytes with " + quoted(name) + ", which is excluded";
    }
    return "is of kind " + std::string(to_string(graph_.tensor(root).kind)) +
           "; the option place says which kinds have one";
  }

  void add_pin(const std::string& name, Bytes pin) {
    if (pin < 0) throw GraphError("pin of " + quoted(name) + " must be >= 0, got " + std::to_string(pin));
    const Spot spot = find(name, "pin");
    const std::string root = quoted(lies_.problem.name(spot.buffer));
    if (pin < spot.inside)
      throw GraphError("pin of " + quoted(name) + " must be >= " + std::to_string(spot.inside) +
                       ": it lies that far inside " + root + ", got " + std::to_string(pin));
    Bytes& base = pins_[at(spot.buffer)];
    std::string& by = pinned_by_[at(spot.buffer)];
    if (base != kNowhere && base != pin - spot.inside)
      throw GraphError("pin of " + quoted(name) + " must be " + std::to_string(base + spot.inside) + ", got " +
                       std::to_string(pin) + ": both it and " + quoted(by) + ", which is pinned, lie in " + root);
    base = pin - spot.inside;
    by = name;
  }

  void add_together(const BasicTogether<std::string>& row, std::vector<Together>& together) const {
    const Spot a = find(row.a, "together"), b = find(row.b, "together");
    if (a.buffer != b.buffer) {
      together.push_back({a.buffer, b.buffer, a.inside + row.distance - b.inside});
    } else if (b.inside - a.inside != row.distance) {
      throw GraphError("together: " + quoted(row.a) + " and " + quoted(row.b) + " cannot be " +
                       std::to_string(row.distance) + " bytes apart: both lie in " +
                       quoted(lies_.problem.name(a.buffer)) + ", " + std::to_string(b.inside - a.inside) +
                       " bytes from each other");
    }
  }

  // What is reserved while some ops run, in steps of the problem.
  std::vector<Reserved> reserved() const {
    std::vector<Reserved> reserved = graph_.layout().reserved;
    const auto& begin = lies_.begin_of_op;
    if (begin.empty()) return reserved;
    const auto step = [&](Step op) {
      if (op < 0) return op;
      return op < static_cast<Step>(begin.size()) ? begin[at(op)] : std::max(op, begin.back());
    };
    for (Reserved& range : reserved) range.first = step(range.first), range.last = step(range.last);
    return reserved;
  }

  Conflicts conflicts() const {
    Conflicts all =
        lies_.problem.conflicts() != nullptr ? *lies_.problem.conflicts() : Conflicts(lies_.problem.count());
    for (const auto& [a, b] : graph_.layout().apart) {
      const Index x = find(a, "apart").buffer, y = find(b, "apart").buffer;
      if (x == y)
        throw GraphError("apart: " + quoted(a) + " and " + quoted(b) + " both lie in " + quoted(lies_.problem.name(x)));
      all.add(x, y);
    }
    return all;
  }

  const Graph& graph_;
  const BufferPlaces& lies_;
  std::vector<Bytes> pins_;             // per buffer
  std::vector<std::string> pinned_by_;  // per buffer: who asked for it
};

}  // namespace

Problem with_layout(const Graph& graph, const BufferPlaces& lies) { return LayoutByBuffer(graph, lies).problem(); }

std::vector<Shared> shared_elsewhere(const Graph& graph, const BufferPlaces& lies, std::vector<Shared> shared) {
  std::vector<bool> asked(at(lies.problem.count()) + 1, false);
  const auto ask = [&](const std::string& name) {
    if (const auto t = graph.find(name)) asked[at(lies.buffer_of_tensor[at(*t)] + 1)] = true;
  };
  const Layout& layout = graph.layout();
  for (const auto& pin : layout.pins) ask(pin.first);
  for (const auto& row : layout.together) ask(row.a), ask(row.b);
  for (const auto& [a, b] : layout.apart) ask(a), ask(b);
  std::erase_if(shared, [&](const Shared& s) { return asked[at(lies.buffer_of_tensor[at(s.view.output)] + 1)]; });
  return shared;
}

}  // namespace memplan
