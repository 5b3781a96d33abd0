#include <algorithm>
#include <memory>
#include <numeric>

#include "bindings.hpp"
#include "memplan/errors.hpp"
#include "memplan/graph.hpp"
#include "memplan/happens_before.hpp"

namespace memplan::bindings {

namespace {

using Views = std::vector<BasicView<std::string>>;
using ViewTuples = std::vector<std::tuple<std::string, std::string, Bytes>>;

Views views_of(const ViewTuples& tuples) {
  Views views;
  for (const auto& [output, input, offset] : tuples) views.push_back({output, input, offset});
  return views;
}

ViewTuples tuples_of(const Views& views) {
  ViewTuples tuples;
  for (const auto& view : views) tuples.emplace_back(view.output, view.input, view.offset);
  return tuples;
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<Index>& tensors) {
  std::vector<std::string> names;
  for (Index t : tensors) names.push_back(graph.tensor(t).name);
  return names;
}

std::vector<OpSpec> ops_of(const Graph& graph) {
  std::vector<OpSpec> ops;
  for (const Op& op : graph.ops()) ops.push_back(spec_of(graph, op));
  return ops;
}

py::list dicts_of(const Views& views) {
  py::list list;
  for (const auto& view : views) {
    py::dict dict;
    dict["output"] = view.output;
    dict["input"] = view.input;
    dict["offset"] = view.offset;
    list.append(std::move(dict));
  }
  return list;
}

py::dict dict_of(const Tensor& tensor) {
  py::dict dict;
  dict["name"] = tensor.name;
  dict["bytes"] = tensor.bytes;
  dict["kind"] = std::string(to_string(tensor.kind));
  if (tensor.shape) dict["shape"] = *tensor.shape;
  if (!tensor.dtype.empty()) dict["dtype"] = tensor.dtype;
  if (tensor.permuted) dict["permuted"] = true;
  return dict;
}

// How a loop calls one of an op's inputs: by its name, or by its position if the op has it more than once.
std::string called(const OpSpec& op, Index input) {
  const std::string& name = op.inputs[at(input)];
  return std::count(op.inputs.begin(), op.inputs.end(), name) == 1 ? name : std::to_string(input);
}

py::object axes_of(const Axes& axes) {
  if (axes.first == axes.last) return py::int_(axes.first);
  return py::cast(std::vector<Index>{axes.first, axes.last});
}

// A number of rows: an integer, or a fraction as text.
py::object number_of_rows(std::int64_t number, std::int64_t per) {
  const std::int64_t common = std::gcd(number, per);
  if (common == per) return py::int_(number / per);
  return py::str(std::to_string(number / common) + "/" + std::to_string(per / common));
}

py::list dicts_of(const OpSpec& op, const std::vector<Loop>& loops) {
  py::list list;
  for (const Loop& loop : loops) {
    py::dict dict, reads, writes, early;
    dict["extent"] = loop.extent;
    for (const LoopRead& r : loop.reads)
      reads[py::str(called(op, r.input))] =
          std::vector<py::object>{axes_of(r.axes), number_of_rows(r.step, r.per), number_of_rows(r.window, r.per),
                                  number_of_rows(r.before, r.per)};
    for (const LoopWrite& w : loop.writes)
      writes[py::str(op.outputs[at(w.output)])] = std::vector<py::object>{axes_of(w.axes), py::int_(w.step)};
    std::vector<std::string> sums;
    for (const Index output : loop.sums) sums.push_back(op.outputs[at(output)]);
    for (const EarlyOutput& one : loop.early) {
      std::vector<std::string> inputs;
      for (const Index input : one.inputs) inputs.push_back(called(op, input));
      early[py::str(op.outputs[at(one.output)])] = inputs;
    }
    if (!loop.reads.empty()) dict["reads"] = reads;
    if (!loop.writes.empty()) dict["writes"] = writes;
    if (!sums.empty()) dict["sums"] = sums;
    if (!loop.early.empty()) dict["early"] = early;
    if (loop.statistics) {
      std::vector<std::string> inputs;
      for (const Index input : loop.statistics->inputs) inputs.push_back(called(op, input));
      dict["statistics"] = py::dict(py::arg("inputs") = inputs, py::arg("bytes") = loop.statistics->bytes);
    }
    if (loop.workspace != 0) dict["workspace"] = loop.workspace;
    std::vector<std::string> copied;
    for (const Index input : loop.copied) copied.push_back(called(op, input));
    if (!copied.empty()) dict["copied"] = copied;
    list.append(std::move(dict));
  }
  return list;
}

py::dict dict_of(const OpSpec& op) {
  py::dict dict;
  dict["name"] = op.name;
  if (!op.type.empty()) dict["type"] = op.type;
  dict["inputs"] = op.inputs;
  dict["outputs"] = op.outputs;
  if (op.workspace != 0) dict["workspace"] = op.workspace;
  if (!op.aliases.empty()) dict["alias"] = dicts_of(op.aliases);
  if (!op.inplace.empty()) dict["inplace"] = dicts_of(op.inplace);
  if (!op.overwrites.empty()) dict["overwrite"] = dicts_of(op.overwrites);
  if (op.stream != 0) dict["stream"] = op.stream;
  if (!op.slices.empty()) dict["slice"] = dicts_of(op.slices);
  if (!op.concats.empty()) dict["concat"] = dicts_of(op.concats);
  if (!op.after.empty()) dict["after"] = op.after;
  if (op.cost) dict["cost"] = *op.cost;
  if (!op.recompute) dict["recompute"] = false;
  if (!op.branch.empty()) dict["branch"] = op.branch;
  if (op.flops) dict["flops"] = *op.flops;
  if (!op.loops.empty()) dict["loops"] = dicts_of(op, op.loops);
  if (!op.ordered.empty()) dict["ordered"] = op.ordered;
  if (op.reads_first) dict["reads_first"] = true;
  if (!op.body.empty()) dict["body"] = op.body;
  if (op.pieces_copied) dict["pieces_copied"] = true;
  return dict;
}

std::vector<std::int64_t> row_of(const Reserved& range) {
  if (range.first == Reserved{}.first && range.last == Reserved{}.last) return {range.begin, range.end};
  return {range.begin, range.end, range.first, range.last};
}

using PinRows = std::vector<std::pair<std::string, Bytes>>;
using ReservedRows = std::vector<std::tuple<Bytes, Bytes, Step, Step>>;
using TogetherRows = std::vector<std::tuple<std::string, std::string, Bytes>>;
using ApartRows = std::vector<std::pair<std::string, std::string>>;
using PoolPinRows = std::vector<std::tuple<std::string, std::string, Bytes>>;
using PoolReservedRows = std::vector<std::tuple<std::string, Bytes, Bytes, Step, Step>>;

ReservedRows reserved_rows(const Layout& layout) {
  ReservedRows rows;
  for (const Reserved& r : layout.reserved) rows.emplace_back(r.begin, r.end, r.first, r.last);
  return rows;
}

TogetherRows together_rows(const Layout& layout) {
  TogetherRows rows;
  for (const auto& row : layout.together) rows.emplace_back(row.a, row.b, row.distance);
  return rows;
}

PoolPinRows pool_pin_rows(const Layout& layout) {
  PoolPinRows rows;
  for (const PoolPin& pin : layout.pool_pins) rows.emplace_back(pin.name, pin.pool, pin.offset);
  return rows;
}

PoolReservedRows pool_reserved_rows(const Layout& layout) {
  PoolReservedRows rows;
  for (const auto& [pool, r] : layout.pool_reserved) rows.emplace_back(pool, r.begin, r.end, r.first, r.last);
  return rows;
}

Layout make_layout(PinRows pins, const ReservedRows& reserved, const TogetherRows& together, ApartRows apart,
                   std::vector<std::string> exclude, const PoolPinRows& pool_pins,
                   const PoolReservedRows& pool_reserved) {
  Layout layout{std::move(pins), {}, {}, std::move(apart), std::move(exclude)};
  for (const auto& [begin, end, first, last] : reserved) layout.reserved.push_back({begin, end, first, last});
  for (const auto& [a, b, distance] : together) layout.together.push_back({a, b, distance});
  for (const auto& [name, pool, offset] : pool_pins) layout.pool_pins.push_back({name, pool, offset});
  for (const auto& [pool, begin, end, first, last] : pool_reserved)
    layout.pool_reserved.push_back({pool, {begin, end, first, last}});
  return layout;
}

void bind_layout(py::module_& m) {
  py::class_<Layout>(m, "Layout",
                     "What is asked of where the tensors and workspaces of a graph lie, by name; see memplan.plan.")
      .def(py::init(&make_layout), py::arg("pins") = PinRows{}, py::arg("reserved") = ReservedRows{},
           py::arg("together") = TogetherRows{}, py::arg("apart") = ApartRows{},
           py::arg("exclude") = std::vector<std::string>{}, py::arg("pool_pins") = PoolPinRows{},
           py::arg("pool_reserved") = PoolReservedRows{})
      .def_readonly("pins", &Layout::pins, "(name, offset).")
      .def_property_readonly("reserved", &reserved_rows, "(begin, end, first, last).")
      .def_property_readonly("together", &together_rows, "(a, b, distance): b begins so many bytes after a.")
      .def_readonly("apart", &Layout::apart, "Pairs that never share bytes.")
      .def_readonly("exclude", &Layout::exclude, "Tensors that have no place in the arena.")
      .def_property_readonly("pool_pins", &pool_pin_rows, "(name, pool, offset there).")
      .def_property_readonly("pool_reserved", &pool_reserved_rows, "(pool, begin, end, first, last).")
      .def("__bool__", [](const Layout& layout) { return !layout.empty(); })
      .def("__eq__", &equal<Layout>, py::arg("other"))
      .def("__reduce__", made_again_by<Layout>([](const Layout& l) {
             return py::make_tuple(l.pins, reserved_rows(l), together_rows(l), l.apart, l.exclude, pool_pin_rows(l),
                                   pool_reserved_rows(l));
           }));
}

// The keys of a graph dict that say what a layout does.
void add_layout(const Layout& layout, py::dict& dict) {
  py::dict pins;
  for (const auto& [name, pin] : layout.pins) pins[py::str(name)] = pin;
  for (const auto& [name, pool, offset] : layout.pool_pins) pins[py::str(name)] = py::make_tuple(pool, offset);
  py::list reserved;
  for (const Reserved& range : layout.reserved) reserved.append(row_of(range));
  for (const auto& [pool, range] : layout.pool_reserved) {
    py::list row = py::cast(row_of(range));
    row.insert(0, pool);
    reserved.append(std::move(row));
  }
  if (!pins.empty()) dict["pin"] = std::move(pins);
  if (!reserved.empty()) dict["reserved"] = std::move(reserved);
  if (!layout.together.empty()) dict["together"] = together_rows(layout);
  if (!layout.apart.empty()) dict["apart"] = layout.apart;
  if (!layout.exclude.empty()) dict["exclude"] = layout.exclude;
}

py::dict dict_of(const Graph& graph) {
  py::list tensors;
  for (const Tensor& tensor : graph.tensors()) tensors.append(dict_of(tensor));
  py::list ops;
  for (const OpSpec& op : ops_of(graph)) ops.append(dict_of(op));
  py::dict dict;
  dict["tensors"] = std::move(tensors);
  dict["ops"] = std::move(ops);
  dict["outputs"] = names_of(graph, graph.outputs());
  add_layout(graph.layout(), dict);
  return dict;
}

void bind_tensor(py::module_& m) {
  const auto make = [](std::string name, Bytes bytes, const std::string& kind,
                       std::optional<std::vector<std::int64_t>> shape, std::string dtype, bool permuted) {
    return Tensor{std::move(name), bytes, tensor_kind(kind), std::move(shape), std::move(dtype), permuted};
  };
  py::class_<Tensor>(m, "Tensor", "A value of a graph: name, bytes, kind, and for people its shape and dtype.")
      .def(py::init(make), py::arg("name"), py::arg("bytes"), py::arg("kind") = "intermediate",
           py::arg("shape") = py::none(), py::arg("dtype") = "", py::arg("permuted") = false)
      .def_readonly("name", &Tensor::name)
      .def_readonly("bytes", &Tensor::bytes)
      .def_property_readonly("kind", [](const Tensor& t) { return std::string(to_string(t.kind)); })
      .def_readonly("shape", &Tensor::shape)
      .def_readonly("dtype", &Tensor::dtype)
      .def_readonly("permuted", &Tensor::permuted, "Whether its axes lie in memory in another order than in the shape.")
      .def("__eq__", &equal<Tensor>, py::arg("other"))
      .def("__repr__",
           [](const Tensor& t) {
             return "Tensor(" + quoted(t.name) + ", bytes=" + std::to_string(t.bytes) + ", kind='" +
                    std::string(to_string(t.kind)) + "')";
           })
      .def("__reduce__", made_again_by<Tensor>([](const Tensor& t) {
             return py::make_tuple(t.name, t.bytes, std::string(to_string(t.kind)), t.shape, t.dtype, t.permuted);
           }));
}

using ReadRow = std::tuple<Index, Index, Index, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using WriteRow = std::tuple<Index, Index, Index, std::int64_t>;
using EarlyRow = std::pair<Index, std::vector<Index>>;

std::vector<ReadRow> read_rows(const Loop& loop) {
  std::vector<ReadRow> rows;
  for (const LoopRead& r : loop.reads)
    rows.emplace_back(r.input, r.axes.first, r.axes.last, r.step, r.window, r.before, r.per);
  return rows;
}

std::vector<WriteRow> write_rows(const Loop& loop) {
  std::vector<WriteRow> rows;
  for (const LoopWrite& w : loop.writes) rows.emplace_back(w.output, w.axes.first, w.axes.last, w.step);
  return rows;
}

std::vector<EarlyRow> early_rows(const Loop& loop) {
  std::vector<EarlyRow> rows;
  for (const EarlyOutput& early : loop.early) rows.emplace_back(early.output, early.inputs);
  return rows;
}

using StatisticsRow = std::optional<std::pair<std::vector<Index>, Bytes>>;

StatisticsRow statistics_row(const Loop& loop) {
  if (!loop.statistics) return std::nullopt;
  return std::pair(loop.statistics->inputs, loop.statistics->bytes);
}

void bind_loop(py::module_& m) {
  const auto make = [](std::int64_t extent, const std::vector<ReadRow>& reads, const std::vector<WriteRow>& writes,
                       std::vector<Index> sums, const std::vector<EarlyRow>& early, const StatisticsRow& statistics,
                       Bytes workspace, std::vector<Index> copied) {
    Loop loop{extent, {}, {}, std::move(sums), {}, {}, workspace, std::move(copied)};
    if (statistics) loop.statistics = Statistics{statistics->first, statistics->second};
    for (const auto& [input, first, last, step, window, before, per] : reads)
      loop.reads.push_back({input, {first, last}, step, window, before, per});
    for (const auto& [output, first, last, step] : writes) loop.writes.push_back({output, {first, last}, step});
    for (const auto& [output, inputs] : early) loop.early.push_back({output, inputs});
    return loop;
  };
  py::class_<Loop>(
      m, "Loop",
      "Along which rows an op goes while it runs. Inputs and outputs are positions in the op.\n\n"
      "reads are (input, first axis, last axis, step, window, before, per); of the last four, rows are the\n"
      "first three over the fourth. writes are (output, first axis, last axis, step); early are (output,\n"
      "inputs); statistics are (inputs, bytes), or None. A piece needs workspace bytes of the op's workspace whole,\n"
      "and its share of the rest. It copies rows of inputs that are copied, where they lie scattered.")
      .def(py::init(make), py::arg("extent"), py::arg("reads") = std::vector<ReadRow>{},
           py::arg("writes") = std::vector<WriteRow>{}, py::arg("sums") = std::vector<Index>{},
           py::arg("early") = std::vector<EarlyRow>{}, py::arg("statistics") = py::none(), py::arg("workspace") = 0,
           py::arg("copied") = std::vector<Index>{})
      .def_readonly("extent", &Loop::extent)
      .def_property_readonly("reads", &read_rows)
      .def_property_readonly("writes", &write_rows)
      .def_readonly("sums", &Loop::sums)
      .def_property_readonly("early", &early_rows)
      .def_property_readonly("statistics", &statistics_row)
      .def_readonly("workspace", &Loop::workspace)
      .def_readonly("copied", &Loop::copied)
      .def("__eq__", &equal<Loop>, py::arg("other"))
      .def("__repr__", [](const Loop& loop) { return "Loop(extent=" + std::to_string(loop.extent) + ")"; })
      .def("__reduce__", made_again_by<Loop>([](const Loop& loop) {
             return py::make_tuple(loop.extent, read_rows(loop), write_rows(loop), loop.sums, early_rows(loop),
                                   statistics_row(loop), loop.workspace, loop.copied);
           }));
}

void bind_op(py::module_& m) {
  const auto make = [](std::string name, std::string type, std::vector<std::string> inputs,
                       std::vector<std::string> outputs, Bytes workspace, const ViewTuples& aliases,
                       const ViewTuples& inplace, const ViewTuples& overwrites, int stream, const ViewTuples& slices,
                       const ViewTuples& concats, std::vector<std::string> after, std::optional<double> cost,
                       bool recompute, std::string branch, std::optional<double> flops, std::vector<Loop> loops,
                       std::vector<Index> ordered, bool reads_first, std::string body, bool pieces_copied) {
    return OpSpec{std::move(name),
                  std::move(type),
                  std::move(inputs),
                  std::move(outputs),
                  workspace,
                  views_of(aliases),
                  views_of(inplace),
                  views_of(overwrites),
                  stream,
                  views_of(slices),
                  views_of(concats),
                  std::move(after),
                  cost,
                  recompute,
                  std::move(branch),
                  flops,
                  std::move(loops),
                  std::move(ordered),
                  reads_first,
                  std::move(body),
                  pieces_copied};
  };
  py::class_<OpSpec>(
      m, "Op",
      "A step of a graph. Tensors are referred to by name; relations are (output, input, offset): aliases, inplace,\n"
      "overwrites and slices put output inside input, offset bytes from its beginning; concats put input\n"
      "inside output. workspace is in bytes; `after` names ops that must have run before.")
      .def(py::init(make), py::arg("name"), py::arg("type") = "", py::arg("inputs") = std::vector<std::string>{},
           py::arg("outputs") = std::vector<std::string>{}, py::arg("workspace") = 0, py::arg("aliases") = ViewTuples{},
           py::arg("inplace") = ViewTuples{}, py::arg("overwrites") = ViewTuples{}, py::arg("stream") = 0,
           py::arg("slices") = ViewTuples{}, py::arg("concats") = ViewTuples{},
           py::arg("after") = std::vector<std::string>{}, py::arg("cost") = py::none(), py::arg("recompute") = true,
           py::arg("branch") = "", py::arg("flops") = py::none(), py::arg("loops") = std::vector<Loop>{},
           py::arg("ordered") = std::vector<Index>{}, py::arg("reads_first") = false, py::arg("body") = "",
           py::arg("pieces_copied") = false)
      .def_readonly("name", &OpSpec::name)
      .def_readonly("type", &OpSpec::type)
      .def_readonly("inputs", &OpSpec::inputs)
      .def_readonly("outputs", &OpSpec::outputs)
      .def_readonly("workspace", &OpSpec::workspace)
      .def_property_readonly("aliases", [](const OpSpec& op) { return tuples_of(op.aliases); })
      .def_property_readonly("inplace", [](const OpSpec& op) { return tuples_of(op.inplace); })
      .def_property_readonly("overwrites", [](const OpSpec& op) { return tuples_of(op.overwrites); })
      .def_readonly("stream", &OpSpec::stream)
      .def_property_readonly("slices", [](const OpSpec& op) { return tuples_of(op.slices); })
      .def_property_readonly("concats", [](const OpSpec& op) { return tuples_of(op.concats); })
      .def_readonly("after", &OpSpec::after, "Names of ops that must have run before.")
      .def_readonly("cost", &OpSpec::cost, "Of running it, in any unit; None where nothing is said.")
      .def_readonly("recompute", &OpSpec::recompute, "Whether it may run again: it gives what it gave before.")
      .def_readonly("branch", &OpSpec::branch, "In which it runs, such as 'if1/then'; empty: in every run.")
      .def_readonly("flops", &OpSpec::flops, "Floating-point operations; None where nothing is said.")
      .def_readonly("loops", &OpSpec::loops, "Loops, along each of which it may run in pieces.")
      .def_readonly("ordered", &OpSpec::ordered,
                    "Positions in `loops`: its kernel runs these in ascending order, the outermost first.")
      .def_readonly("reads_first", &OpSpec::reads_first,
                    "Whether an iteration of these reads all that it reads before it writes.")
      .def_readonly("body", &OpSpec::body, "Of a loop in which it runs, such as 'loop1'; empty: in none.")
      .def_readonly("pieces_copied", &OpSpec::pieces_copied,
                    "Whether rows that lie scattered in memory are computed apart, and then copied there.")
      .def("__eq__", &equal<OpSpec>, py::arg("other"))
      .def("__repr__", [](const OpSpec& op) { return "Op(" + quoted(op.name) + ", type=" + quoted(op.type) + ")"; })
      .def("__reduce__", made_again_by<OpSpec>([](const OpSpec& op) {
             return py::make_tuple(op.name, op.type, op.inputs, op.outputs, op.workspace, tuples_of(op.aliases),
                                   tuples_of(op.inplace), tuples_of(op.overwrites), op.stream, tuples_of(op.slices),
                                   tuples_of(op.concats), op.after, op.cost, op.recompute, op.branch, op.flops,
                                   op.loops, op.ordered, op.reads_first, op.body, op.pieces_copied);
           }));
}

void bind_order(py::module_& m) {
  struct Order {
    HappensBefore order;
    Index ops;
  };
  const auto before = [](const Order& self, Index a, Index b) {
    for (const Index op : {a, b})
      if (op < 0 || op >= self.ops) throw py::index_error("the graph has no op " + std::to_string(op));
    return self.order.before(a, b);
  };
  py::class_<Order>(m, "HappensBefore", "Which ops have ended when others begin, in every order in which they may run.")
      .def(py::init([](const Graph& graph) { return Order{HappensBefore(graph), graph.op_count()}; }), py::arg("graph"))
      .def("before", before, py::arg("a"), py::arg("b"),
           "Whether op a has ended when op b begins, by their positions.");
}

}  // namespace

void bind_graph(py::module_& m) {
  bind_tensor(m);
  bind_loop(m);
  bind_op(m);
  bind_layout(m);
  const auto make = [](std::vector<Tensor> tensors, std::vector<OpSpec> ops, std::vector<std::string> outputs,
                       Layout layout) {
    return std::make_shared<Graph>(
        GraphSpec{std::move(tensors), std::move(ops), std::move(outputs), std::move(layout)});
  };
  py::class_<Graph, std::shared_ptr<Graph>>(
      m, "Graph",
      "Tensors, ops in execution order and graph outputs; validated and immutable.\n\n"
      "Raises GraphError, naming op and tensor, for unknown or repeated names, a tensor written twice or never,\n"
      "a use before its producer, cycles, negative sizes and views outside their root.")
      .def(py::init(make), py::arg("tensors"), py::arg("ops"), py::arg("outputs") = std::vector<std::string>{},
           py::arg("layout") = Layout{})
      .def_property_readonly(
          "tensors", [](const Graph& g) { return g.tensors(); }, "All tensors, as declared.")
      .def_property_readonly("ops", &ops_of, "All ops; op k runs at step k.")
      .def_property_readonly(
          "outputs", [](const Graph& g) { return names_of(g, g.outputs()); }, "Names of the graph's outputs.")
      .def_property_readonly("layout", &Graph::layout, "What is asked of where tensors and workspaces lie.")
      .def("index", &Graph::find, py::arg("name"), "Position of a tensor in `tensors`; None when there is none.")
      .def(
          "tensor",
          [](const Graph& g, Index t) {
            if (t < 0 || t >= g.tensor_count()) throw py::index_error("the graph has no tensor " + std::to_string(t));
            return g.tensor(t);
          },
          py::arg("index"), "The tensor at that position in `tensors`.")
      .def(
          "to_dict", [](const Graph& g) { return py::typing::Dict<py::str, py::object>(dict_of(g)); },
          "The graph as a graph dict.")
      .def("__eq__", &equal<Graph>, py::arg("other"))
      .def("_repr_html_", shown_by("graph_html"), "Tensors by kind, ops by type, and the load over the steps.")
      .def("__repr__",
           [](const Graph& g) {
             return "<memplan.Graph: " + std::to_string(g.tensor_count()) + " tensors, " +
                    std::to_string(g.op_count()) + " ops, " + std::to_string(g.outputs().size()) + " outputs>";
           })
      .def("__reduce__", made_again_by<Graph>([](const Graph& g) {
             return py::make_tuple(g.tensors(), ops_of(g), names_of(g, g.outputs()), g.layout());
           }));
  bind_order(m);
}

}  // namespace memplan::bindings
