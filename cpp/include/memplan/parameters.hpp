// Parameters of planners and orders, as in "beam:k=16" or "exact:work=1000".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace memplan {

// A parameter is a number, as in "beam:k=16", or one of a few words, as in "coloring:order=size". If `least` or `most`
// is that of int64, there is no such limit.
struct Parameter {
  std::string_view name;
  std::string_view title;  // one line for people
  std::int64_t standard;   // the default
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::span<const std::string_view> words = {};  // if not empty: the names of the values 0, 1, …
};

// Values by name. Of equal names, the first counts.
using Settings = std::vector<std::pair<std::string_view, std::int64_t>>;

std::int64_t value_in(const Settings& set, const Parameter& parameter);

// Reads the parameters of "name:parameter=value,…". Messages call the planner or order `who`. Throws
// std::invalid_argument, which lists the known parameters, or the values of a parameter.
Settings settings_in(std::string_view text, std::span<const Parameter> parameters, std::string_view who);

// text(row) of each row, separated by commas.
template <class Rows, class Text>
std::string listed(const Rows& rows, Text&& text) {
  std::string list;
  for (const auto& row : rows) list += (list.empty() ? "" : ", ") + std::string(text(row));
  return list;
}

}  // namespace memplan
