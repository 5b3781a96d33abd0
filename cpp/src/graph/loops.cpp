#include "memplan/loops.hpp"

#include <algorithm>
#include <tuple>

namespace memplan {

namespace {

constexpr std::int64_t kMostEach = std::int64_t{1} << 31;  // of each number, so that no product exceeds int64

std::int64_t divided_down(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
std::int64_t divided_up(std::int64_t a, std::int64_t b) { return -divided_down(-a, b); }

RowRange within(RowRange range, std::int64_t rows) {
  range.begin = std::clamp<std::int64_t>(range.begin, 0, rows);
  range.end = std::clamp<std::int64_t>(range.end, range.begin, rows);
  return range;
}

bool is_position(Index position, std::size_t count) { return position >= 0 && at(position) < count; }

std::string outside(const std::string& what, Index position, std::size_t count) {
  return what + " " + std::to_string(position) + " is not among the " + std::to_string(count) + " of the op";
}

std::string not_between(const std::string& what, std::int64_t least, std::int64_t got) {
  return what + " must be from " + std::to_string(least) + " to " + std::to_string(kMostEach) + ", got " +
         std::to_string(got);
}

}  // namespace

RowRange rows_read(const LoopRead& read, RowRange iterations, std::int64_t rows) {
  if (iterations.empty()) return {};
  const std::int64_t begin = iterations.begin * read.step - read.before;
  const std::int64_t end = (iterations.end - 1) * read.step - read.before + read.window;
  return within({divided_down(begin, read.per), divided_up(end, read.per)}, rows);
}

RowRange rows_written(const LoopWrite& write, RowRange iterations, std::int64_t rows) {
  return within({iterations.begin * write.step, iterations.end * write.step}, rows);
}

std::string wrong_loop(const Loop& loop, std::size_t inputs, std::size_t outputs) {
  if (loop.extent < 1 || loop.extent > kMostEach) return not_between("extent", 1, loop.extent);
  std::vector<bool> is_read(inputs, false);
  for (const LoopRead& read : loop.reads) {
    if (!is_position(read.input, inputs)) return outside("input", read.input, inputs);
    if (is_read[at(read.input)]) return "input " + std::to_string(read.input) + " is listed twice";
    is_read[at(read.input)] = true;
    for (const auto& [what, least, value] : {std::tuple{"step", std::int64_t{1}, read.step},
                                             {"window", 1, read.window},
                                             {"before", -kMostEach, read.before},
                                             {"per", 1, read.per}})
      if (value < least || value > kMostEach) return not_between(what, least, value);
  }
  std::vector<bool> is_made(outputs, false);
  const auto make = [&](Index output) -> std::string {
    if (!is_position(output, outputs)) return outside("output", output, outputs);
    if (is_made[at(output)]) return "output " + std::to_string(output) + " is listed twice";
    is_made[at(output)] = true;
    return {};
  };
  for (const LoopWrite& write : loop.writes) {
    if (std::string wrong = make(write.output); !wrong.empty()) return wrong;
    if (write.step < 1 || write.step > kMostEach) return not_between("step", 1, write.step);
  }
  for (const Index output : loop.sums)
    if (std::string wrong = make(output); !wrong.empty()) return wrong;
  for (const EarlyOutput& early : loop.early) {
    if (std::string wrong = make(early.output); !wrong.empty()) return wrong;
    for (const Index input : early.inputs)
      if (!is_position(input, inputs)) return outside("input", input, inputs);
  }
  if (loop.statistics) {
    if (loop.statistics->bytes < 1)
      return "statistics must have at least 1 byte, got " + std::to_string(loop.statistics->bytes);
    bool by_rows = false;
    for (const Index input : loop.statistics->inputs) {
      if (!is_position(input, inputs)) return outside("input", input, inputs);
      const auto read = std::ranges::find(loop.reads, input, &LoopRead::input);
      if (read == loop.reads.end()) continue;
      by_rows = true;
      if (read->window != read->step || read->before != 0 || read->per != 1)
        return "iterations read rows of input " + std::to_string(input) + " twice, which is counted in statistics";
    }
    if (!by_rows) return "no input that is counted in statistics is read by rows";
  }
  if (loop.workspace < 0) return "workspace must be >= 0 bytes, got " + std::to_string(loop.workspace);
  for (const Index input : loop.copied)
    if (!is_position(input, inputs)) return outside("input", input, inputs);
  const auto missing = std::find(is_made.begin(), is_made.end(), false);
  if (missing != is_made.end())
    return "output " + std::to_string(missing - is_made.begin()) + " must be in writes, sums or early";
  return {};
}

}  // namespace memplan
