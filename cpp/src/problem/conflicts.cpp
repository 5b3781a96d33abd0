#include "memplan/conflicts.hpp"

#include <string>
#include <utility>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

constexpr std::size_t kMostWords = std::size_t{1} << 30;  // 4 GiB
constexpr std::size_t kAllBits = std::size_t{1} << 14;    // buffers: all rows of bits take 32 MiB

}  // namespace

void Conflicts::insert(Index a, Index b) {
  Row& row = rows_[at(a)];
  if (is_bits(row)) return set_bit(row, at(b));
  const auto value = static_cast<std::uint32_t>(b);
  const auto place = row.empty() || row.back() < value ? row.end() : std::lower_bound(row.begin(), row.end(), value);
  if (place != row.end() && *place == value) return;
  const bool to_bits = rows_.size() <= kAllBits || row.size() + 1 == words_;
  take(to_bits ? words_ - row.size() : 1);
  if (!to_bits) {
    row.insert(place, value);
    return;
  }
  Row bits(words_, 0);
  for (const std::uint32_t other : row) set_bit(bits, other);
  row = std::move(bits);
  set_bit(row, at(b));
}

void Conflicts::take(std::size_t words) {
  taken_ += words;
  if (taken_ > kMostWords)
    throw ProblemError("conflicts among " + std::to_string(count()) + " buffers would need more than " +
                       std::to_string(kMostWords * sizeof(Row::value_type)) + " bytes");
}

}  // namespace memplan
