#include <memory>

#include "arrays.hpp"
#include "asked.hpp"
#include "chosen.hpp"
#include "memplan/errors.hpp"
#include "memplan/liveness.hpp"
#include "memplan/order.hpp"
#include "memplan/order_registry.hpp"
#include "memplan/registry.hpp"
#include "memplan/solve.hpp"
#include "memplan/solve_order.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

Place place_of(const std::vector<std::string>& kinds) {
  Place place({});
  for (const std::string& kind : kinds) place.add(tensor_kind(kind));
  return place;
}

Plan solve_problem(const Problem& problem, const Asked& asked) {
  Call call(asked);
  if (!call.options.warm.empty()) require_one_per_buffer(problem, call.options.warm);
  OnPlan on_plan;
  if (call.watch.listens()) on_plan = [&](Plan plan) { call.watch.tell(std::move(plan)); };
  return solved(call.watch, [&] { return solve(problem, call.planner(), call.options, on_plan); });
}

std::pair<Buffers, Plan> solve_graph(const Graph& graph, const StorageOptions& storage, const Asked& asked) {
  Call call(asked);
  OnGraphPlan on_plan;
  if (call.watch.listens())
    on_plan = [&](GraphPlan found) { call.watch.tell(std::move(found.buffers), std::move(found.plan)); };
  GraphPlan found = solved(call.watch, [&] { return solve(graph, call.planner(), storage, call.options, on_plan); });
  return {std::move(found.buffers), std::move(found.plan)};
}

// Graph, buffers, plan, and the bound of all orders.
using InOrder = std::tuple<std::shared_ptr<Graph>, Buffers, Plan, Bytes>;

InOrder solve_in_order_by(const std::shared_ptr<Graph>& graph, const std::string& order, const StorageOptions& storage,
                          const Asked& asked) {
  Call call(asked);
  const ChosenOrder by = choose_order(order);
  OnOrderedPlan on_plan;
  if (call.watch.listens())
    on_plan = [&](const std::shared_ptr<const Graph>& of, GraphPlan found) {
      call.watch.tell(std::const_pointer_cast<Graph>(of), std::move(found.buffers), std::move(found.plan));
    };
  OrderedPlan ordered = solved(call.watch, [&] {
    return solve_in_order(graph, by, call.planner(), storage, call.options, on_plan, call.on_order());
  });
  return {std::const_pointer_cast<Graph>(ordered.graph), std::move(ordered.found.buffers),
          std::move(ordered.found.plan), ordered.bound};
}

OpOrder order_by(const Graph& graph, const std::string& name, const StorageOptions& storage,
                 std::optional<double> time_limit, bool interruptible, const py::object& tell) {
  Watch watch(tell, interruptible);
  const ChosenOrder chosen = choose_order(name);
  OrderOptions options;
  options.time_limit = time_limit;
  if (watch.can_stop()) options.stop = [&] { return watch.stop(); };
  if (watch.listens()) options.on_order = [&](const OrderProgress& found) { watch.tell(found); };
  OpOrder order = [&] {
    const py::gil_scoped_release release;
    return order_of(graph, chosen, storage, options);
  }();
  order.interrupted |= watch.interrupted(true);
  return order;
}

void bind_best_order(py::module_& m) {
  py::class_<OpOrder>(m, "Order", "An order of a graph's ops; see memplan/order.hpp.")
      .def_readonly("ops", &OpOrder::ops)
      .def_readonly("load", &OpOrder::load)
      .def_readonly("bound", &OpOrder::bound)
      .def_readonly("found_by", &OpOrder::found_by)
      .def_readonly("interrupted", &OpOrder::interrupted)
      .def_property_readonly(
          "graph", [](const OpOrder& o) { return std::const_pointer_cast<Graph>(o.graph); },
          "The graph in that order; None where it is the given one.");
  py::class_<OrderProgress>(m, "OrderProgress", "What a search for an order of the ops has found so far.")
      .def_readonly("found_by", &OrderProgress::found_by, "The rule or search that found the best order.")
      .def_readonly("needed", &OrderProgress::needed,
                    "Bytes that this order needs: each content counts once, whatever tensors share bytes.")
      .def_readonly("bound", &OrderProgress::bound, "Bytes that every order needs; 0 if nothing is proven.")
      .def("__repr__", [](const OrderProgress& p) {
        return "OrderProgress(found_by=" + quoted(p.found_by) + ", needed=" + std::to_string(p.needed) +
               ", bound=" + std::to_string(p.bound) + ")";
      });
  py::class_<OrderInfo>(m, "OrderInfo", "A row of the table of orders: what an order is, and where it comes from.")
      .def_readonly("name", &OrderInfo::name)
      .def_readonly("title", &OrderInfo::title)
      .def_property_readonly(
          "parameters",
          [](const OrderInfo& o) { return std::vector<Parameter>(o.parameters.begin(), o.parameters.end()); })
      .def_readonly("complexity", &OrderInfo::complexity, "For n ops and m waits between them.")
      .def_readonly("source", &OrderInfo::source, "Paper or project.")
      .def("__repr__", [](const OrderInfo& o) { return "<memplan order '" + std::string(o.name) + "'>"; });
  m.def("orders", [] { return std::vector<OrderInfo>(orders().begin(), orders().end()); }, "The rows, in their order.");
  m.def(
      "check_planner",
      [](const std::string& planner, const InPython& in_python) {
        Watch watch(py::none(), false);
        const Chosen chosen(planner, in_python, watch);
      },
      py::arg("planner"), py::arg("in_python") = py::none(),
      "Raises ValueError where the text asks for no planner, or gives it what it does not take.");
  m.def(
      "check_order", [](const std::string& order) { choose_order(order); }, py::arg("order"),
      "Raises ValueError where the text asks for no order.");
  m.def("order_of", &order_by, py::arg("graph"), py::arg("order"), py::arg("storage") = StorageOptions(),
        py::arg("time_limit") = py::none(), py::arg("interruptible") = true, py::arg("tell") = py::none());
  m.def("reordered", &reordered, py::arg("graph"), py::arg("ops"));
}

std::vector<std::string> kinds_of(const Place& place) {
  std::vector<std::string> kinds;
  for (int kind = 0; kind < kTensorKinds; ++kind)
    if (const auto k = static_cast<TensorKind>(kind); place.contains(k)) kinds.emplace_back(to_string(k));
  return kinds;
}

void bind_storage_options(py::module_& m) {
  const auto make = [](const std::vector<std::string>& place, Bytes alignment, bool inplace,
                       std::vector<std::string> disable_inplace_ops, std::vector<std::string> donate, bool zero_copy) {
    return StorageOptions{place_of(place),   alignment, inplace, std::move(disable_inplace_ops),
                          std::move(donate), zero_copy};
  };
  py::class_<StorageOptions>(m, "StorageOptions", "What may be done with a graph's memory; see memplan.plan.")
      .def(py::init(make), py::arg("place") = std::vector<std::string>{"intermediate", "output", "workspace"},
           py::arg("alignment") = 1, py::arg("inplace") = true,
           py::arg("disable_inplace_ops") = std::vector<std::string>{}, py::arg("donate") = std::vector<std::string>{},
           py::arg("zero_copy") = true)
      .def_property_readonly("place", [](const StorageOptions& o) { return kinds_of(o.place); })
      .def_readonly("alignment", &StorageOptions::alignment)
      .def_readonly("inplace", &StorageOptions::inplace)
      .def_readonly("disable_inplace_ops", &StorageOptions::disable_inplace_ops)
      .def_readonly("donate", &StorageOptions::donate)
      .def_readonly("zero_copy", &StorageOptions::zero_copy)
      .def("__reduce__", made_again_by<StorageOptions>([](const StorageOptions& o) {
             return py::make_tuple(kinds_of(o.place), o.alignment, o.inplace, o.disable_inplace_ops, o.donate,
                                   o.zero_copy);
           }));
}

// What tensors share bytes by choice, by index: (how, op, output, input, offset).
using SharedTuple = std::tuple<std::string, Index, Index, Index, Bytes>;

std::vector<SharedTuple> shared_of(const Buffers& buffers) {
  std::vector<SharedTuple> tuples;
  for (const Shared& s : buffers.shared)
    tuples.emplace_back(std::string(to_string(s.how)), s.op, s.view.output, s.view.input, s.view.offset);
  return tuples;
}

std::vector<Shared> shared_from(const std::vector<SharedTuple>& tuples) {
  std::vector<Shared> shared;
  for (const auto& [how, op, output, input, offset] : tuples)
    for (const Sharing sharing : {Sharing::inplace, Sharing::slice, Sharing::concat})
      if (to_string(sharing) == how) shared.push_back({sharing, op, {output, input, offset}});
  return shared;
}

void bind_buffers(py::module_& m) {
  const auto make = [](Problem problem, std::vector<Index> buffer_of_tensor, std::vector<Bytes> offset_in_buffer,
                       std::vector<Index> root_of_tensor, std::vector<Index> buffer_of_workspace,
                       const std::vector<SharedTuple>& shared, std::vector<Index> donated, Bytes unshared,
                       std::vector<Step> begin_of_op) {
    return Buffers{std::move(problem),
                   std::move(buffer_of_tensor),
                   std::move(offset_in_buffer),
                   std::move(root_of_tensor),
                   std::move(buffer_of_workspace),
                   shared_from(shared),
                   std::move(donated),
                   unshared,
                   std::move(begin_of_op)};
  };
  py::class_<Buffers>(m, "Buffers", "The problem of a graph, and the way back from its buffers to tensors and ops.")
      .def(py::init(make), py::arg("problem"), py::arg("buffer_of_tensor"), py::arg("offset_in_buffer"),
           py::arg("root_of_tensor"), py::arg("buffer_of_workspace"), py::arg("shared"), py::arg("donated"),
           py::arg("unshared"), py::arg("begin_of_op") = std::vector<Step>{})
      .def_readonly("problem", &Buffers::problem)
      .def_property_readonly("buffer_of_tensor",
                             column_property<Buffers>("buffer_of_tensor", &Buffers::buffer_of_tensor),
                             "(tensors,) int32; -1 where the tensor is not placed.")
      .def_property_readonly("offset_in_buffer",
                             column_property<Buffers>("offset_in_buffer", &Buffers::offset_in_buffer),
                             "(tensors,) int64, bytes.")
      .def_property_readonly("root_of_tensor", column_property<Buffers>("root_of_tensor", &Buffers::root_of_tensor),
                             "(tensors,) int32: the tensor that owns the bytes, itself unless it shares another's.")
      .def_property_readonly("buffer_of_workspace",
                             column_property<Buffers>("buffer_of_workspace", &Buffers::buffer_of_workspace),
                             "(ops,) int32; -1 where the op has no placed workspace.")
      .def_property_readonly("shared", &shared_of,
                             "What shares bytes by choice: (how, op, output, input, offset), how being 'inplace',\n"
                             "'slice' or 'concat', the others positions in the graph, and bytes.")
      .def_readonly("donated", &Buffers::donated, "Positions of the graph inputs whose bytes may be taken.")
      .def_readonly("unshared", &Buffers::unshared,
                    "Bytes that would be placed if nothing shared bytes by choice, summed up.")
      .def_property_readonly("begin_of_op", column_property<Buffers>("begin_of_op", &Buffers::begin_of_op),
                             "(ops + 1,) int64: the first step of each op, and the end; empty where op k is step k.")
      .def("__reduce__", made_again_by<Buffers>([](const Buffers& b) {
             return py::make_tuple(b.problem, b.buffer_of_tensor, b.offset_in_buffer, b.root_of_tensor,
                                   b.buffer_of_workspace, shared_of(b), b.donated, b.unshared, b.begin_of_op);
           }));
  m.def(
      "lives_of",
      [](const Graph& graph) {
        std::vector<std::pair<Step, Step>> lives;
        for (const Span& life : lives_of(graph)) lives.emplace_back(life.first, life.last);
        return lives;
      },
      py::arg("graph"), "Per tensor, the steps [first, last) from its write to its last read.");
  m.def(
      "buffers_of", [](const Graph& graph, const StorageOptions& options) { return buffers_of(graph, options); },
      py::arg("graph"), py::arg("options") = StorageOptions{}, py::call_guard<py::gil_scoped_release>(),
      "The problem of a graph: storages, lifetimes and conflicts.");
}

}  // namespace

void bind_solve(py::module_& m) {
  Watch::main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  bind_storage_options(m);
  bind_buffers(m);
  bind_best_order(m);
  py::class_<Plan>(m, "Solution", "What a planner found: offsets and what is known about them.")
      .def_property_readonly("offsets", column_property<Plan>("offsets", &Plan::offsets),
                             "(n,) int64, bytes; read-only.")
      .def_readonly("peak", &Plan::peak)
      .def_readonly("lower_bound", &Plan::lower_bound)
      .def_readonly("optimal", &Plan::optimal)
      .def_readonly("placement_bound", &Plan::placement_bound)
      .def_readonly("objects", &Plan::objects, "Shared objects that the planner thought in; 0 when it does not.")
      .def_readonly("planner", &Plan::planner)
      .def_readonly("winner", &Plan::winner)
      .def_readonly("interrupted", &Plan::interrupted, "It was asked to end before it was done.")
      .def_readonly("seconds", &Plan::seconds)
      .def_readonly("found_after", &Plan::found_after);
  m.def(
      "why_too_large",
      [](const Problem& problem, Bytes capacity, Bytes lower_bound, Bytes peak, std::string planner) {
        Plan plan;
        plan.peak = peak;
        plan.planner = std::move(planner);
        return std::string(infeasible(problem, capacity, lower_bound, std::move(plan)).what());
      },
      py::arg("problem"), py::arg("capacity"), py::arg("lower_bound"), py::arg("peak"), py::arg("planner"),
      "What an InfeasibleError says where the best plan of a planner peaks above the capacity.");
  m.def("solve_problem", &solve_problem, py::arg("problem"), py::arg("options") = Asked(),
        "Plans a problem and verifies the result; the GIL is released. `tell` of the options is called with the\n"
        "Solution of each better plan that is found.");
  m.def("solve_graph", &solve_graph, py::arg("graph"), py::arg("storage"), py::arg("options") = Asked(),
        "Plans a graph, verifies and replays the result; otherwise as solve_problem. `tell` is given Buffers too.");
  m.def("solve_in_order", &solve_in_order_by, py::arg("graph"), py::arg("order"), py::arg("storage"),
        py::arg("options") = Asked(),
        "Plans a graph in the order of a rule or search; \"best\" is never worse than given. The graph in that order,\n"
        "and the bound of all orders, come with what solve_graph gives. `tell` is given the graph too.");
}

}  // namespace memplan::bindings
