#include <span>
#include <string>

#include "arrays.hpp"
#include "memplan/bounds.hpp"
#include "memplan/clique.hpp"
#include "memplan/errors.hpp"
#include "memplan/partial_order.hpp"
#include "memplan/plan.hpp"
#include "memplan/problem.hpp"
#include "watch.hpp"

namespace memplan::bindings {

namespace {

using Array = py::array_t<std::int64_t>;

// A scalar counts for every buffer.
std::vector<Bytes> alignment_column(py::handle source, std::size_t count) {
  if (array_of(source, "alignment").ndim() != 0) return int64_column(source, "alignment");
  return std::vector(count, int64_column(py::make_tuple(source), "alignment")[0]);
}

std::string text_of(py::handle name, const char* column) {
  Py_ssize_t length = 0;
  const char* text = py::isinstance<py::str>(name) ? PyUnicode_AsUTF8AndSize(name.ptr(), &length) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    refuse(column, "hold strings that UTF-8 can hold", py::repr(name).cast<std::string>());
  }
  return {text, static_cast<std::size_t>(length)};
}

std::vector<std::string> texts_of(const py::object& source, const char* column) {
  if (source.is_none()) return {};
  if (py::isinstance<py::str>(source) || !py::isinstance<py::iterable>(source))
    refuse(column, "be a sequence of strings", py::repr(source).cast<std::string>());
  std::vector<std::string> texts;
  for (py::handle text : source) texts.push_back(text_of(text, column));
  return texts;
}

std::string name_at(const Problem& problem, Index buffer) {
  if (buffer < 0 || buffer >= problem.count())
    throw py::index_error("buffer " + std::to_string(buffer) + " is out of range: the problem has " +
                          std::to_string(problem.count()) + " buffers");
  return problem.name(buffer);
}

Index index_of(std::int64_t value, const char* name, Index count) {
  if (value < 0 || value >= count)
    refuse(name, "name buffers in [0, " + std::to_string(count) + ")", std::to_string(value));
  return static_cast<Index>(value);
}

std::vector<Part> parts_of(const py::object& source, Index count) {
  const Rows rows = rows_of(source, "parts", 5);
  std::vector<Part> parts;
  for (std::size_t r = 0; r < rows.size(); r += 5)
    parts.push_back({index_of(rows[r], "parts", count), rows[r + 1], rows[r + 2], rows[r + 3], rows[r + 4]});
  return parts;
}

void add_conflicts(const py::object& source, Conflicts& conflicts) {
  const Rows rows = rows_of(source, "conflicts", 2);
  const Index count = conflicts.count();
  for (std::size_t r = 0; r < rows.size(); r += 2) {
    const Index a = index_of(rows[r], "conflicts", count);
    const Index b = index_of(rows[r + 1], "conflicts", count);
    if (a == b) refuse("conflicts", "be between two buffers", "buffer " + std::to_string(a) + " twice");
    conflicts.add(a, b);
  }
}

std::vector<std::pair<Step, Step>> happens_before_of(const py::object& source) {
  const Rows rows = rows_of(source, "happens_before", 2);
  std::vector<std::pair<Step, Step>> pairs;
  for (std::size_t r = 0; r < rows.size(); r += 2) pairs.emplace_back(rows[r], rows[r + 1]);
  return pairs;
}

// A row of numbers per buffer: the vector clock of an event.
Rows clocks_of(py::handle source, const char* name, py::ssize_t clocks) {
  return rows_of(py::reinterpret_borrow<py::object>(source), name, clocks);
}

std::vector<Reserved> reserved_of(const py::object& source) {
  const Rows rows = rows_of(source, "reserved", 4);
  std::vector<Reserved> reserved;
  for (std::size_t r = 0; r < rows.size(); r += 4) reserved.push_back({rows[r], rows[r + 1], rows[r + 2], rows[r + 3]});
  return reserved;
}

std::vector<Together> together_of(const py::object& source, Index count) {
  const Rows rows = rows_of(source, "together", 3);
  std::vector<Together> together;
  for (std::size_t r = 0; r < rows.size(); r += 3)
    together.push_back({index_of(rows[r], "together", count), index_of(rows[r + 1], "together", count), rows[r + 2]});
  return together;
}

Problem pinned(const Problem& problem, const py::object& pins, const py::object& reserved) {
  const auto with_pins =
      problem.with_pins(pins.is_none() ? std::vector<Bytes>{} : int64_column(pins, "pins"), reserved_of(reserved));
  return with_pins.with_together({problem.together().begin(), problem.together().end()});  // checked again
}

Problem conflicting(const Problem& problem, const py::object& conflicts) {
  Conflicts all(problem.count());
  add_conflicts(conflicts, all);
  return problem.with_conflicts(std::move(all)).with_together({problem.together().begin(), problem.together().end()});
}

Problem joined(const Problem& problem, const py::object& together) {
  return problem.with_together(together_of(together, problem.count()));
}

// Checked again.
Problem branched(const Problem& problem, const py::object& branches) {
  const Problem found = problem.with_branches(texts_of(branches, "branches"));
  return found.with_together({problem.together().begin(), problem.together().end()});
}

Problem make_problem(py::handle size, py::handle first, py::handle last, py::handle alignment, const py::object& names,
                     const py::object& parts, const py::object& conflicts, const py::object& happens_before,
                     const py::object& pins, const py::object& reserved, const py::object& together,
                     const py::object& branches) {
  std::vector<Bytes> sizes = int64_column(size, "size");
  std::vector<Bytes> alignments = alignment_column(alignment, sizes.size());
  const py::array events = array_of(first, "first");
  const bool clocked = events.ndim() == 2 && events.size() > 0;
  ClockedLives lives{{}, {}, Conflicts(0)};
  if (clocked) {
    if (!happens_before.is_none()) refuse("happens_before", "be None where first and last are vector clocks", "both");
    const py::ssize_t clocks = events.shape(1);
    const Rows begin = clocks_of(first, "first", clocks), end = clocks_of(last, "last", clocks);
    if (begin.size() != end.size())
      refuse("last", "have one clock per buffer, as first has", std::to_string(end.size() / at(clocks)));
    lives = interruptibly([&](const PlanOptions& options) { return lives_of_clocks(begin, end, at(clocks), options); });
  } else {
    lives.first = int64_column(first, "first");
    lives.last = int64_column(last, "last");
  }
  Problem problem(std::move(sizes), std::move(lives.first), std::move(lives.last), std::move(alignments),
                  texts_of(names, "names"));
  if (!parts.is_none()) problem = problem.with_shapes(parts_of(parts, problem.count()));
  Conflicts all = clocked ? std::move(lives.conflicts) : Conflicts(problem.count());
  add_conflicts(conflicts, all);
  problem = problem.with_conflicts(std::move(all));
  if (!happens_before.is_none()) {
    const auto pairs = happens_before_of(happens_before);
    problem = interruptibly([&](const PlanOptions& options) { return with_happens_before(problem, pairs, options); });
  }
  if (!branches.is_none()) problem = problem.with_branches(texts_of(branches, "branches"));
  if (!pins.is_none() || !reserved.is_none()) problem = pinned(problem, pins, reserved);
  return together.is_none() ? problem : joined(problem, together);
}

py::array_t<std::int64_t> table(Rows rows, py::ssize_t columns) {
  const py::ssize_t count = static_cast<py::ssize_t>(rows.size()) / columns;
  return adopt(std::move(rows)).attr("reshape")(count, columns).cast<Array>();
}

std::optional<Array> parts_table(const Problem& problem) {
  if (!problem.has_shapes()) return std::nullopt;
  Rows rows;
  for (Index i = 0; i < problem.count(); ++i)
    for (const Part& part : problem.parts(i))
      rows.insert(rows.end(), {part.buffer, part.begin, part.end, part.first, part.last});
  return table(std::move(rows), 5);
}

std::optional<Array> conflicts_table(const Problem& problem) {
  if (problem.conflicts() == nullptr) return std::nullopt;
  Rows rows;
  for (Index a = 0; a < problem.count(); ++a)
    problem.conflicts()->for_each(a, [&](Index b) {
      if (a < b) rows.insert(rows.end(), {a, b});
    });
  return table(std::move(rows), 2);
}

std::optional<Array> pins_column(const Problem& problem) {
  if (!problem.has_pins()) return std::nullopt;
  std::vector<Bytes> pins;
  for (Index i = 0; i < problem.count(); ++i) pins.push_back(problem.pin(i));
  return adopt(std::move(pins));
}

std::optional<Array> reserved_table(const Problem& problem) {
  if (problem.reserved().empty()) return std::nullopt;
  Rows rows;
  for (const Reserved& range : problem.reserved())
    rows.insert(rows.end(), {range.begin, range.end, range.first, range.last});
  return table(std::move(rows), 4);
}

std::optional<std::vector<std::string>> branches_column(const Problem& problem) {
  if (!problem.has_branches()) return std::nullopt;
  return problem.branches().paths();
}

std::optional<Array> together_table(const Problem& problem) {
  if (problem.together().empty()) return std::nullopt;
  Rows rows;
  for (const Together& row : problem.together()) rows.insert(rows.end(), {row.a, row.b, row.distance});
  return table(std::move(rows), 3);
}

// A column that is not given stays as it is.
Problem replaced(const Problem& problem, const py::KWArgs<py::object>& given) {
  const auto copy = [](std::span<const std::int64_t> s) {
    return std::optional<Array>(adopt(std::vector(s.begin(), s.end())));
  };
  py::dict columns;
  const auto keep = [&](const char* name, auto&& column) {
    columns[name] = given.contains(name) ? py::object(given[name]) : py::cast(column());
  };
  keep("size", [&] { return copy(problem.size()); });
  keep("first", [&] { return copy(problem.first()); });
  keep("last", [&] { return copy(problem.last()); });
  keep("alignment", [&] { return copy(problem.alignment()); });
  keep("names", [&] { return problem.names(); });
  keep("parts", [&] { return parts_table(problem); });
  keep("conflicts", [&] { return conflicts_table(problem); });
  keep("pins", [&] { return pins_column(problem); });
  keep("reserved", [&] { return reserved_table(problem); });
  keep("together", [&] { return together_table(problem); });
  keep("branches", [&] { return branches_column(problem); });
  for (const auto& [name, column] : given)
    if (!columns.contains(name))
      throw py::type_error("replace takes columns of a Problem, got " + py::str(name).cast<std::string>());
  return make_problem(columns["size"], columns["first"], columns["last"], columns["alignment"], columns["names"],
                      columns["parts"], columns["conflicts"], py::none(), columns["pins"], columns["reserved"],
                      columns["together"], columns["branches"]);
}

Problem subset_of(const Problem& problem, py::handle buffers) {
  std::vector<Index> rows;
  for (const std::int64_t i : int64_column(buffers, "buffers")) rows.push_back(index_of(i, "buffers", problem.count()));
  return problem.subset(rows);
}

using Columns = std::span<const std::int64_t> (Problem::*)() const;

py::typing::Tuple<Array, Array> load_curve_arrays(const Problem& problem) {
  LoadCurve curve = load_curve(problem);
  return py::make_tuple(adopt(std::move(curve.step)), adopt(std::move(curve.bytes)));
}

using CliqueTuple = py::typing::Tuple<Bytes, Array>;

CliqueTuple clique_tuple(const Problem& problem, std::int64_t work) {
  const Clique clique =
      interruptibly([&](const PlanOptions& options) { return heaviest_clique(problem, options, work); });
  Rows rows;
  for (const CliqueMember& member : clique.members) rows.insert(rows.end(), {member.buffer, member.begin, member.end});
  return py::make_tuple(clique.bytes, table(std::move(rows), 3));
}

}  // namespace

void bind_problem(py::module_& m) {
  py::class_<Problem>(
      m, "Problem",
      "Buffers to be placed: buffer i has size[i] bytes, lives in the half-open steps [first[i], last[i]), and its\n"
      "offset must be a multiple of alignment[i].\n\n"
      "Parameters\n----------\n"
      "size, first, last : (n,) int64\n"
      "    Bytes, first step, and the step after the last: any arrays or sequences of integers. They are copied.\n"
      "    first and last may be (n, k): the vector clocks, of k numbers, of the events at which a buffer begins and\n"
      "    ends. An event happens before another if none of its numbers is above the other's, and one is below.\n"
      "alignment : int or (n,) int64\n    Bytes, >= 1.\n"
      "names : sequence of str, optional\n    One name per buffer.\n"
      "parts : (m, 5) int64, optional\n"
      "    Rows (buffer, begin, end, first, last): a buffer that has some is in use only there, at its bytes\n"
      "    [begin, end) in the steps [first, last). They lie within its size and life and do not overlap.\n"
      "conflicts : (m, 2) int64, optional\n"
      "    Pairs of buffers that may not share bytes whatever their lifetimes.\n"
      "happens_before : (m, 2) int64, optional\n"
      "    Pairs of steps (earlier, later), the earlier with the lower number. Then steps are events in a partial\n"
      "    order: what these pairs and all that follows from them say. A buffer takes another's bytes only if its\n"
      "    first event is the other's last, or comes after that. What else is apart becomes `conflicts`. So it does\n"
      "    with vector clocks, and `first` and `last` are then ranks of the clocks.\n"
      "pins : (n,) int64, optional\n"
      "    Per buffer its offset, -1 where the planner is free to choose.\n"
      "reserved : (m, 4) int64, optional\n"
      "    Rows (begin, end, first, last): bytes [begin, end) of the arena that no buffer may use in the steps\n"
      "    [first, last). The least and the largest int64 as steps stand for always.\n"
      "together : (m, 3) int64, optional\n"
      "    Rows (a, b, distance): buffer b begins so many bytes after buffer a, or before it if negative.\n"
      "branches : sequence of str, optional\n"
      "    Per buffer the branch in which alone it exists, such as 'if1/then', or 'if1/then/if2/else' for a switch\n"
      "    inside of it; '' where it exists in every run. Buffers of two branches of one switch may share bytes\n"
      "    whatever their lifetimes.\n\n"
      "Raises\n------\n"
      "ProblemError\n    Naming column and row: unequal lengths, size < 0, last <= first, alignment < 1, or sizes\n"
      "    that add up to more than int64.")
      .def(py::init(&make_problem), py::arg("size"), py::arg("first"), py::arg("last"), py::arg("alignment") = 1,
           py::arg("names") = py::none(), py::arg("parts") = py::none(), py::arg("conflicts") = py::none(),
           py::arg("happens_before") = py::none(), py::arg("pins") = py::none(), py::arg("reserved") = py::none(),
           py::arg("together") = py::none(), py::arg("branches") = py::none())
      .def_property_readonly("size", column_property<Problem>("size", static_cast<Columns>(&Problem::size)))
      .def_property_readonly("first", column_property<Problem>("first", static_cast<Columns>(&Problem::first)))
      .def_property_readonly("last", column_property<Problem>("last", static_cast<Columns>(&Problem::last)))
      .def_property_readonly("alignment",
                             column_property<Problem>("alignment", static_cast<Columns>(&Problem::alignment)))
      .def_property_readonly(
          "names", [](const Problem& p) { return p.names(); }, "Names, or an empty list.")
      .def_property_readonly("parts", &parts_table, "(m, 5) int64, or None when all buffers are plain rectangles.")
      .def_property_readonly("conflicts", &conflicts_table,
                             "(m, 2) int64: what conflicts beyond lifetimes, or None when nothing does.")
      .def_property_readonly("pins", &pins_column, "(n,) int64, -1 where a buffer is free; None when all are.")
      .def_property_readonly("reserved", &reserved_table, "(m, 4) int64, or None when no bytes are reserved.")
      .def("subset", &subset_of, py::arg("buffers"),
           "Some of the buffers, in this order, with all that holds of and among them, and with what is reserved.")
      .def("replace", &replaced,
           "The same problem, with these columns in the place of its own: by the names that they have when a Problem "
           "is\n"
           "made, but for happens_before, which has become conflicts.")
      .def("with_pins", &pinned, py::arg("pins") = py::none(), py::arg("reserved") = py::none(),
           "The same buffers, with these pins and reserved bytes instead of those that they have.")
      .def_property_readonly("together", &together_table, "(m, 3) int64, or None when no buffers lie together.")
      .def_property_readonly("branches", &branches_column,
                             "The branch of each buffer, '' where it exists in every run; None where all do.")
      .def("with_branches", &branched, py::arg("branches") = py::none(),
           "The same buffers, in these branches instead of those that they are in.")
      .def("with_conflicts", &conflicting, py::arg("conflicts") = py::none(),
           "The same buffers, with these conflicts instead of those that they have.")
      .def("with_together", &joined, py::arg("together") = py::none(),
           "The same buffers, which lie together as these rows say instead of as they did.")
      .def("name", &name_at, py::arg("buffer"), "The buffer's name, or '#i' where buffers have none.")
      .def_property_readonly("load", &load, "The largest sum of bytes alive at one step: no plan peaks below it.")
      .def_property_readonly("aligned_load", &aligned_load,
                             "The load with the gaps that alignments leave at one step: no plan peaks below it.")
      .def("load_curve", &load_curve_arrays,
           "The load over time as a staircase: (step, bytes), two int64 arrays; bytes[k] are alive in\n"
           "[step[k], step[k + 1]), and the last entry is 0.")
      .def("__len__", &Problem::count)
      .def("__eq__", &equal<Problem>, py::arg("other"))
      .def("_repr_html_", shown_by("problem_html"), "Counts, bytes, and the load over the steps.")
      .def("__repr__", [](const Problem& p) { return "<memplan.Problem: " + std::to_string(p.count()) + " buffers>"; })
      .def("__reduce__", made_again_by<Problem>([](const Problem& p) {
             const auto copy = [](std::span<const std::int64_t> s) { return adopt(std::vector(s.begin(), s.end())); };
             return py::make_tuple(copy(p.size()), copy(p.first()), copy(p.last()), copy(p.alignment()), p.names(),
                                   parts_table(p), conflicts_table(p), py::none(), pins_column(p), reserved_table(p),
                                   together_table(p), branches_column(p));
           }));
  m.def("heaviest_clique", &clique_tuple, py::arg("problem"), py::arg("work") = kCliqueWork,
        "Bytes that every plan needs, and why: rows (buffer, begin, end) of bytes of which no two may overlap.");
}

}  // namespace memplan::bindings
