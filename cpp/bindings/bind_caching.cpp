#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "arrays.hpp"
#include "memplan/caching.hpp"

namespace memplan::bindings {

namespace {

CachingTrace trace_of(const py::object& pools, const py::object& events, const py::object& segments,
                      const py::object& blocks, Bytes large_segment) {
  CachingRecord record;
  const Rows pool = rows_of(pools, "pools", 2), event = rows_of(events, "events", 4);
  const Rows segment = rows_of(segments, "segments", 5), block = rows_of(blocks, "blocks", 4);
  const auto index = [](std::int64_t value, const char* what) {
    if (value < 0 || value > std::int64_t{1} << 30) refuse(what, "name pools", std::to_string(value));
    return static_cast<Index>(value);
  };
  for (std::size_t r = 0; r < pool.size(); r += 2) record.pools.push_back({pool[r], index(pool[r + 1], "pools")});
  record.events.reserve(event.size() / 4);
  for (std::size_t r = 0; r < event.size(); r += 4) {
    if (event[r] < 0 || event[r] > static_cast<std::int64_t>(CachingAction::run_out))
      refuse("events", "begin with an action", std::to_string(event[r]));
    record.events.push_back({static_cast<CachingAction>(event[r]), static_cast<Address>(event[r + 1]), event[r + 2],
                             index(event[r + 3], "events")});
  }
  for (std::size_t r = 0; r < segment.size(); r += 5)
    record.segments.push_back({static_cast<Address>(segment[r]), segment[r + 1], index(segment[r + 2], "segments"),
                               segment[r + 3] != 0, segment[r + 4] != 0});
  for (std::size_t r = 0; r < block.size(); r += 4)
    record.blocks.push_back(
        {static_cast<Address>(block[r]), block[r + 1], block[r + 2], index(block[r + 3], "blocks")});
  const py::gil_scoped_release release;
  return CachingTrace(std::move(record), large_segment);
}

CachingTies ties_of(const std::string& name) {
  if (name == "segment") return CachingTies::segment;
  if (name == "block") return CachingTies::block;
  if (name == "address") return CachingTies::address;
  refuse("ties", "be segment, block or address", name);
}

CachingSettings settings_of(Bytes max_split_size, Bytes max_non_split_rounding, Bytes large_segment,
                            const std::array<Bytes, 16>& roundup_divisions, double garbage_collection_threshold,
                            bool expandable_segments, Bytes limit, Bytes capacity, Bytes preallocated,
                            const std::string& ties) {
  if (large_segment < 2 << 20) refuse("large_segment", "be at least 2 MiB", std::to_string(large_segment));
  return {max_split_size,
          max_non_split_rounding,
          large_segment,
          roundup_divisions,
          garbage_collection_threshold,
          expandable_segments,
          limit,
          capacity,
          preallocated,
          ties_of(ties)};
}

py::dict columns_of(const CachingState& state) {
  Rows segments;
  for (const CachingSegment& s : state.segments)
    segments.insert(segments.end(), {static_cast<std::int64_t>(s.address), s.size, s.pool, s.small, s.expandable});
  py::dict columns;
  columns["segments"] =
      adopt(std::move(segments)).reshape({static_cast<py::ssize_t>(state.segments.size()), py::ssize_t{5}});
  columns["segment"] = adopt(state.segment);
  columns["address"] = adopt(state.address);
  columns["size"] = adopt(state.size);
  columns["event"] = adopt(state.event);
  columns["used"] = adopt(std::vector<std::uint8_t>(state.used.begin(), state.used.end()));
  return columns;
}

}  // namespace

void bind_caching(py::module_& m) {
  py::class_<CachingSettings>(m, "CachingSettings", "What PYTORCH_ALLOC_CONF sets, in bytes; see memplan/caching.hpp.")
      .def(py::init(&settings_of), py::kw_only(), py::arg("max_split_size") = kMaxBytes,
           py::arg("max_non_split_rounding") = CachingSettings{}.max_non_split_rounding,
           py::arg("large_segment") = CachingSettings{}.large_segment,
           py::arg("roundup_divisions") = CachingSettings{}.roundup_divisions,
           py::arg("garbage_collection_threshold") = 0.0, py::arg("expandable_segments") = false,
           py::arg("limit") = kMaxBytes, py::arg("capacity") = kMaxBytes, py::arg("preallocated") = 0,
           py::arg("ties") = "segment")
      .def_readonly("large_segment", &CachingSettings::large_segment)
      .def("rounded", &CachingSettings::rounded, py::arg("size"), "The bytes of a block for a request.");
  py::class_<CachingReplay>(m, "CachingReplay", "A replay with the settings and addresses of a record.")
      .def_readonly("allocations", &CachingReplay::allocations)
      .def_readonly("equal_addresses", &CachingReplay::equal_addresses)
      .def_readonly("segments", &CachingReplay::segments)
      .def_readonly("equal_segments", &CachingReplay::equal_segments)
      .def_readonly("reserved", &CachingReplay::reserved)
      .def_readonly("recorded_reserved", &CachingReplay::recorded_reserved)
      .def_readonly("allocated", &CachingReplay::allocated)
      .def_readonly("parts_at", &CachingReplay::parts_at)
      .def_readonly("parts_because", &CachingReplay::parts_because)
      .def_readonly("before", &CachingReplay::before)
      .def_readonly("contradictions", &CachingReplay::contradictions)
      .def_readonly("contradiction", &CachingReplay::contradiction)
      .def_property_readonly("reserved_after",
                             column_property<CachingReplay>("reserved_after", &CachingReplay::reserved_after))
      .def_property_readonly("recorded_after",
                             column_property<CachingReplay>("recorded_after", &CachingReplay::recorded_after))
      .def_property_readonly("allocated_after",
                             column_property<CachingReplay>("allocated_after", &CachingReplay::allocated_after));
  py::class_<CachingRun>(m, "CachingRun", "What a run of requests reserves.")
      .def_readonly("reserved", &CachingRun::reserved)
      .def_readonly("allocated", &CachingRun::allocated)
      .def_readonly("peak_at", &CachingRun::peak_at)
      .def_readonly("ran_out_at", &CachingRun::ran_out_at)
      .def_readonly("retries", &CachingRun::retries)
      .def_property_readonly("reserved_after",
                             column_property<CachingRun>("reserved_after", &CachingRun::reserved_after))
      .def_property_readonly("allocated_after",
                             column_property<CachingRun>("allocated_after", &CachingRun::allocated_after));
  py::class_<CachingTrace>(m, "CachingTrace", "What torch recorded of one device, to be replayed and run again.")
      .def(py::init(&trace_of), py::kw_only(), py::arg("pools"), py::arg("events"), py::arg("segments"),
           py::arg("blocks"), py::arg("large_segment") = CachingSettings{}.large_segment,
           "Tables of int64: pools (stream, group), events (action, address, size, pool), segments (address, size,\n"
           "pool, small, expandable), blocks (address, size, requested, pool).")
      .def("replay", &CachingTrace::replay, py::arg("settings"), py::call_guard<py::gil_scoped_release>(),
           "The replay with the settings of the record, to the address.")
      .def("reserve", &CachingTrace::reserve, py::arg("settings"), py::call_guard<py::gil_scoped_release>(),
           "A run of the same requests, with other settings.")
      .def(
          "state_after",
          [](const CachingTrace& trace, const CachingSettings& settings, std::int64_t event, bool as_recorded) {
            CachingState state;
            {
              const py::gil_scoped_release release;
              state = trace.state_after(settings, event, as_recorded);
            }
            return columns_of(state);
          },
          py::arg("settings"), py::arg("event"), py::kw_only(), py::arg("as_recorded"),
          "Segments and blocks after an event, by column.");
  m.def(
      "reserve",
      [](const py::object& rows, const py::object& size, const CachingSettings& settings) {
        const std::vector<std::int64_t> row = int64_column(rows, "rows");
        const std::vector<Bytes> bytes = int64_column(size, "size");
        if (bytes.size() != row.size()) refuse("size", "be as long as rows", std::to_string(bytes.size()));
        for (std::size_t k = 0; k < row.size(); ++k)
          if (row[k] < 0 ? -1 - row[k] >= static_cast<std::int64_t>(k) : bytes[k] < 0)
            refuse("rows", "free what an earlier row allocated", std::to_string(row[k]));
        const py::gil_scoped_release release;
        return reserve(row, bytes, settings);
      },
      py::arg("rows"), py::arg("size"), py::arg("settings"),
      "What a program reserves: rows >= 0 allocate their size, row -k - 1 frees what row k allocated.");
  m.def("reserved_by_caching", &reserved_by_caching, py::arg("problem"), py::call_guard<py::gil_scoped_release>(),
        "Bytes that torch's caching allocator for CUDA reserves for the buffers, born and freed in their order.");
}

}  // namespace memplan::bindings
