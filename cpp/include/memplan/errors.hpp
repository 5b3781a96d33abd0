// Errors: what the core throws. Each message names the thing, what was expected and what came.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace memplan {

// Whether a character acts on a terminal instead of being seen: control characters, line ends, what turns the direction
// of text around, and what has no width.
constexpr bool unseen(unsigned c) {
  constexpr unsigned ranges[][2] = {{0x0, 0x1F},      {0x7F, 0x9F},     {0xAD, 0xAD},
                                    {0x61C, 0x61C},   {0x200B, 0x200F}, {0x2028, 0x202E},
                                    {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}};
  for (const auto& [first, last] : ranges)
    if (first <= c && c <= last) return true;
  return false;
}

// The name, of UTF-8, between quotes, as messages show it: what cannot be seen is escaped.
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

// A graph that cannot be: unknown names, two writers, a use before its producer, a view outside its root.
struct GraphError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Buffers that cannot be: negative sizes, empty lifetimes, sums beyond int64, columns of unequal length.
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

// A planner that does not do what a planner has to; the message names it.
struct PlannerError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A planner had to end before it had a plan.
struct EndedError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// It had to end because its time limit had passed.
struct TimeLimitError : EndedError {
  using EndedError::EndedError;
};

// It had to end because someone asked it to.
struct InterruptedError : EndedError {
  using EndedError::EndedError;
};

}  // namespace memplan
