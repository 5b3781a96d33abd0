// Errors: the exceptions of the core. Each message names the thing, what was expected, and what was found.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace memplan {

// Whether a character is not visible: control characters, line ends, characters that change the direction of text, and
// characters without width.
constexpr bool unseen(unsigned c) {
  constexpr unsigned ranges[][2] = {{0x0, 0x1F},      {0x7F, 0x9F},     {0xAD, 0xAD},
                                    {0x61C, 0x61C},   {0x200B, 0x200F}, {0x2028, 0x202E},
                                    {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}};
  for (const auto& [first, last] : ranges)
    if (first <= c && c <= last) return true;
  return false;
}

// A name in UTF-8, in quotes, as messages show it. Invisible characters are escaped.
inline std::string quoted(std::string_view name) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string text = "'";
  for (std::size_t i = 0; i < name.size();) {
    const auto lead = static_cast<unsigned char>(name[i]);
    const std::size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const std::string_view character = name.substr(i, length);
    unsigned point = length == 1 ? lead : lead & (0x7FU >> length);
    for (const char c : character.substr(1)) point = point << 6 | (static_cast<unsigned char>(c) & 0x3FU);
    if (!unseen(point)) {
      text += character;
    } else {
      text += point < 0x100 ? "\\x" : "\\u";
      for (int shift = point < 0x100 ? 4 : 12; shift >= 0; shift -= 4) text += hex[point >> shift & 15];
    }
    i += length;
  }
  return text + "'";
}

// An invalid graph: unknown names, two writers of a tensor, a read before the write, a view outside its root.
struct GraphError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Invalid buffers: negative sizes, empty lifetimes, sums beyond int64, columns of unequal length.
struct ProblemError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A request that a planner or a stage does not support, named by feature.
struct UnsupportedError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A plan that breaks its problem or its graph; the message lists the violations.
struct InvalidPlanError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// A planner breaks the rules for planners. The message names the planner.
struct PlannerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A planner had to end before it had a plan.
struct EndedError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The planner had to end because its time limit had passed.
struct TimeLimitError : EndedError {
  using EndedError::EndedError;
};

// The planner had to end because `stop` or Ctrl-C asked for it.
struct InterruptedError : EndedError {
  using EndedError::EndedError;
};

}  // namespace memplan
