// MaxTree against a plain row of numbers.
#include <algorithm>
#include <random>
#include <vector>

#include "base/max_tree.hpp"
#include "check.hpp"

using namespace memplan;

namespace {

std::mt19937_64 generator(7);

std::size_t below(std::size_t limit) { return generator() % limit; }

Bytes largest(const std::vector<Bytes>& row, std::size_t begin, std::size_t end) {
  Bytes found = 0;
  for (std::size_t i = begin; i < end; ++i) found = std::max(found, row[i]);
  return found;
}

std::size_t first_at_least(const std::vector<Bytes>& row, std::size_t begin, Bytes least) {
  while (begin < row.size() && row[begin] < least) ++begin;
  return begin;
}

void same_as_a_plain_row(std::size_t size) {
  std::vector<Bytes> row(size);
  for (Bytes& value : row) value = static_cast<Bytes>(below(20));
  MaxTree tree(row);
  CHECK(tree.size() == size);
  for (int round = 0; round < 50; ++round) {
    const std::size_t begin = below(size + 1);
    const std::size_t end = begin + below(size + 1 - begin);
    const auto bytes = static_cast<Bytes>(below(9));
    tree.add(begin, end, bytes);
    for (std::size_t i = begin; i < end; ++i) row[i] += bytes;
    const std::size_t from = below(size + 1);
    const std::size_t to = from + below(size + 1 - from);
    CHECK(tree.max(from, to) == largest(row, from, to));
    const auto least = static_cast<Bytes>(below(60));
    CHECK(tree.first_at_least(from, least) == first_at_least(row, from, least));
  }
}

}  // namespace

int main() {
  for (std::size_t size = 0; size < 70; ++size) same_as_a_plain_row(size);
  return check::finish();
}
