#include "base/sorting.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace memplan {

namespace {

constexpr unsigned kDigitBits = 11;  // of a digit: its counts fit into a cache
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

struct Entry {
  std::uint64_t key;  // from the least one on
  Index index;
};

// Sorts by one digit, and keeps the order within it.
void distribute(const std::vector<Entry>& from, std::vector<Entry>& to, unsigned shift) {
  std::array<std::size_t, kDigits + 1> begin{};
  const auto digit = [&](const Entry& entry) { return (entry.key >> shift) % kDigits; };
  for (const Entry& entry : from) ++begin[digit(entry) + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  for (const Entry& entry : from) to[begin[digit(entry)]++] = entry;
}

}  // namespace

std::vector<Index> sorted_by(std::span<const std::int64_t> key, std::vector<Index> order) {
  const auto before = [&](Index a, Index b) { return key[at(a)] < key[at(b)]; };
  if (std::is_sorted(order.begin(), order.end(), before)) return order;
  if (order.size() < kDigits) {
    std::stable_sort(order.begin(), order.end(), before);
    return order;
  }
  const auto [least, most] = std::minmax_element(order.begin(), order.end(), before);
  const auto above_least = [base = static_cast<std::uint64_t>(key[at(*least)])](std::int64_t k) {
    return static_cast<std::uint64_t>(k) - base;
  };
  const auto bits = static_cast<unsigned>(std::bit_width(above_least(key[at(*most)])));
  std::vector<Entry> entries(order.size());
  std::vector<Entry> sorted(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) entries[k] = {above_least(key[at(order[k])]), order[k]};
  for (unsigned shift = 0; shift < bits; shift += kDigitBits) {
    distribute(entries, sorted, shift);
    entries.swap(sorted);
  }
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = entries[k].index;
  return order;
}

std::vector<Index> sorted_by(std::span<const std::int64_t> key) {
  std::vector<Index> order(key.size());
  std::iota(order.begin(), order.end(), Index{0});
  return sorted_by(key, std::move(order));
}

}  // namespace memplan
