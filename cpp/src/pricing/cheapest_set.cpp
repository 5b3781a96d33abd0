#include "pricing/cheapest_set.hpp"

#include <algorithm>

namespace memplan {

namespace {

using Core = std::vector<std::size_t>;

class CheapestSearch {
 public:
  CheapestSearch(const std::vector<Core>& cores, std::span<const std::int64_t> price) : price_(price) {
    best_.assign(price.size(), 0);
    for (const Core& core : cores)
      for (const std::size_t thing : core) best_[thing] = 1;
    for (std::size_t k = 0; k < price.size(); ++k) best_price_ += best_[k] != 0 ? price[k] : 0;
    taken_.assign(price.size(), 0);
    refused_.assign(price.size(), 0);
    least_ = apart(cores);
    search(cores, 0);
  }

  CheapestSet found() && { return {std::move(best_), nodes_ <= kMostNodes ? best_price_ : least_}; }

 private:
  static constexpr int kMostNodes = 20'000;

  // What cores that have nothing in common cost at least.
  std::int64_t apart(const std::vector<Core>& cores) {
    std::vector<const Core*> by_size;
    for (const Core& core : cores) by_size.push_back(&core);
    std::stable_sort(by_size.begin(), by_size.end(),
                     [](const Core* a, const Core* b) { return a->size() < b->size(); });
    std::vector<char> seen(price_.size(), 0);
    std::int64_t total = 0;
    for (const Core* core : by_size) {
      if (std::ranges::any_of(*core, [&](std::size_t thing) { return seen[thing] != 0; })) continue;
      std::int64_t least = price_[core->front()];
      for (const std::size_t thing : *core) {
        seen[thing] = 1;
        least = std::min(least, price_[thing]);
      }
      total += least;
    }
    return total;
  }

  void search(const std::vector<Core>& left, std::int64_t paid) {
    if (++nodes_ > kMostNodes || paid + apart(left) >= best_price_) return;
    if (left.empty()) {
      best_ = taken_;
      best_price_ = paid;
      return;
    }
    Core fewest = *std::ranges::min_element(left, {}, &Core::size);
    std::ranges::sort(
        fewest, [&](std::size_t a, std::size_t b) { return price_[a] != price_[b] ? price_[a] < price_[b] : a < b; });
    for (const std::size_t thing : fewest) {
      taken_[thing] = 1;
      if (std::vector<Core> rest; without(left, thing, rest)) search(rest, paid + price_[thing]);
      taken_[thing] = 0;
      refused_[thing] = 1;
    }
    for (const std::size_t thing : fewest) refused_[thing] = 0;
  }

  // The cores that it leaves, less what is refused; false where that leaves one empty.
  bool without(const std::vector<Core>& left, std::size_t thing, std::vector<Core>& rest) const {
    for (const Core& core : left) {
      if (std::ranges::find(core, thing) != core.end()) continue;
      Core& less = rest.emplace_back();
      std::ranges::copy_if(core, std::back_inserter(less), [&](std::size_t other) { return refused_[other] == 0; });
      if (less.empty()) return false;
    }
    return true;
  }

  std::span<const std::int64_t> price_;
  std::vector<char> best_, taken_, refused_;
  std::int64_t best_price_ = 0, least_ = 0;
  int nodes_ = 0;
};

}  // namespace

CheapestSet cheapest_set(const std::vector<std::vector<std::size_t>>& cores, std::span<const std::int64_t> price) {
  return CheapestSearch(cores, price).found();
}

}  // namespace memplan
