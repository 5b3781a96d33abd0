#include "bindings.hpp"

PYBIND11_MODULE(_core, m) {
  namespace b = memplan::bindings;
  m.doc() = "The C++ core of memplan.";
  m.attr("__version__") = MEMPLAN_VERSION;
  b::bind_errors(m);
  b::bind_graph(m);
  b::bind_problem(m);
  b::bind_caching(m);
  b::bind_planners(m);
  b::bind_options(m);
  b::bind_solve(m);
  b::bind_keep(m);
  b::bind_pools(m);
  b::bind_methods(m);
  b::bind_ranges(m);
  b::bind_fit(m);
  b::bind_split(m);
  b::bind_pricing(m);
  b::bind_order_bound(m);
  b::bind_verify(m);
  b::bind_refute(m);
}
