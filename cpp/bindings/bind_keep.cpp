#include <unordered_map>

#include "arrays.hpp"
#include "asked.hpp"
#include "memplan/near.hpp"

namespace memplan::bindings {

namespace {

// Offsets, who moved, how many do at least, whether it was interrupted, seconds.
using KeptTuple = std::tuple<py::array_t<Bytes>, std::vector<Index>, Index, bool, double>;

KeptTuple keep_offsets(const Problem& problem, py::handle offsets, py::handle wishes, const Asked& asked) {
  Plan plan;
  plan.offsets = int64_column(offsets, "offsets");
  const std::vector<Bytes> values = int64_column(wishes, "wishes");
  require_one_per_buffer(problem, plan.offsets);
  plan.peak = peak_of(problem, plan.offsets);
  Call call(asked);
  Kept kept = solved(call.watch, [&] { return keep(problem, std::move(plan), values, call.options); }, true);
  return {adopt(std::move(kept.plan.offsets)), std::move(kept.moved), kept.moved_bound, kept.plan.interrupted,
          kept.plan.seconds};
}

}  // namespace

void bind_keep(py::module_& m) {
  m.attr("PART_BEFORE_KEEP") = kPartBeforeKeep;
  m.def(
      "targets_of",
      [](const Problem& problem, const std::unordered_map<std::string, Bytes>& wished) {
        std::vector<Bytes> targets(at(problem.count()), kNowhere);
        std::size_t known = 0;
        for (Index i = 0; i < problem.count(); ++i)
          if (const auto found = wished.find(problem.name(i)); found != wished.end()) {
            targets[at(i)] = found->second;
            ++known;
          }
        return std::pair(adopt(std::move(targets)), known == wished.size());
      },
      py::arg("problem"), py::arg("wished"),
      "Per buffer, the offset that is wished by its name, -1 for none; and whether all names are those of buffers.");
  m.def(
      "placed_near",
      [](const Problem& problem, py::handle wishes) {
        const std::vector<Bytes> values = int64_column(wishes, "wishes");
        require_one_per_buffer(problem, values);
        return adopt(placed_near(problem, values));
      },
      py::arg("problem"), py::arg("wishes"),
      "Offsets (int64, bytes): where they are wished, -1 for nowhere, or as little above as is free in their order.");
  m.def(
      "keep", &keep_offsets, py::arg("problem"), py::arg("offsets"), py::arg("wishes"), py::arg("options") = Asked(),
      "A plan as high as one with these offsets, or as the capacity, of which few are not as wished, -1 for nowhere:\n"
      "its offsets, which buffers lie elsewhere, how many do at least, whether Ctrl-C ended it, and seconds. It is\n"
      "verified. The GIL is released.");
}

}  // namespace memplan::bindings
