#include "memplan/parameters.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

// Limits that are those of the type are none.
std::string expected(const Parameter& parameter) {
  if (!parameter.words.empty()) return "one of " + listed(parameter.words, [](std::string_view w) { return w; });
  using Limits = std::numeric_limits<std::int64_t>;
  const std::string least = std::to_string(parameter.least), most = std::to_string(parameter.most);
  if (parameter.least == Limits::min()) return parameter.most == Limits::max() ? "an integer" : "an integer <= " + most;
  return parameter.most == Limits::max() ? "an integer >= " + least : "an integer in [" + least + ", " + most + "]";
}

std::int64_t value_of(const Parameter& parameter, std::string_view text) {
  const auto word = std::find(parameter.words.begin(), parameter.words.end(), text);
  if (word != parameter.words.end()) return word - parameter.words.begin();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = parameter.words.empty() && error == std::errc() && end == text.data() + text.size();
  if (number && parameter.least <= value && value <= parameter.most) return value;
  throw std::invalid_argument("parameter " + std::string(parameter.name) + " must be " + expected(parameter) +
                              ", got " + quoted(text));
}

std::pair<std::string_view, std::int64_t> setting(std::span<const Parameter> parameters, std::string_view who,
                                                  std::string_view text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  for (const Parameter& parameter : parameters)
    if (parameter.name == text.substr(0, equals) && equals < text.size())
      return {parameter.name, value_of(parameter, text.substr(equals + 1))};
  const std::string known = listed(parameters, [](const Parameter& p) { return p.name; });
  throw std::invalid_argument(std::string(who) + " takes " +
                              (known.empty() ? "no parameters" : "NAME=VALUE for " + known) + ", got " + quoted(text));
}

}  // namespace

std::int64_t value_in(const Settings& set, const Parameter& parameter) {
  for (const auto& [name, value] : set)
    if (name == parameter.name) return value;
  return parameter.standard;
}

Settings settings_in(std::string_view text, std::span<const Parameter> parameters, std::string_view who) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  Settings set;
  std::string_view rest = text.substr(std::min(colon + 1, text.size()));
  for (bool more = !rest.empty(); more;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    set.insert(set.begin(), setting(parameters, who, rest.substr(0, comma)));  // the last one counts
    more = comma < rest.size();                                                // a comma at the end promises one more
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return set;
}

}  // namespace memplan
