// Parameters: what planners and orders take besides their name, as in "beam:k=16" or "exact:work=1000".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace memplan {

// A number that a planner takes, as in "beam:k=16", or one of a few words, as in "coloring:order=size". A limit that is
// that of int64 is no limit.
struct Parameter {
  std::string_view name;
  std::string_view title;  // one line for people
  std::int64_t standard;   // used unless another is given
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::span<const std::string_view> words = {};  // if not empty: the names of the values 0, 1, …
};

using Settings = std::vector<std::pair<std::string_view, std::int64_t>>;  // parameters by name; the first one counts

std::int64_t value_in(const Settings& set, const Parameter& parameter);

// What "name:parameter=value,…" sets. `who` is what messages call the planner or order that takes them. Throws
// std::invalid_argument that lists the parameters, or the values that a parameter takes.
Settings settings_in(std::string_view text, std::span<const Parameter> parameters, std::string_view who);

// What a list of rows has, between commas.
template <class Rows, class Text>
std::string listed(const Rows& rows, Text&& text) {
  std::string list;
  for (const auto& row : rows) list += (list.empty() ? "" : ", ") + std::string(text(row));
  return list;
}

}  // namespace memplan
