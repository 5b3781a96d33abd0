#include "order/improving.hpp"

#include <algorithm>

#include "order/ideals.hpp"

namespace memplan {

namespace {

constexpr std::int64_t kWorkOfWindow = 30'000'000;
constexpr std::size_t kWindowSizes[] = {12, 32, 80, 200, 256};

}  // namespace

Height height_of(std::span<const Bytes> needs) {
  Height height;
  for (const Bytes need : needs) {
    if (need > height.load) height = {need, 0};
    height.peaks += need == height.load ? 1 : 0;
  }
  return height;
}

Improving::Improving(const ContentsModel& model, const Blocks& blocks, const Deadline& deadline,
                     std::int64_t& work_left, OrderReporter& tell)
    : model_(model), blocks_(blocks), deadline_(deadline), cuts_(model, deadline), work_left_(work_left), tell_(tell) {}

void Improving::improve(std::string_view name, std::vector<Index>& order) {
  name_ = name;
  order = joined(in_blocks(blocks_, order));
  height_ = height_of(needs_of(model_, order));
  while (work_left_ > 0) {
    deadline_.check();
    const std::vector<Bytes> needs = needs_of(model_, order);
    work_left_ -= 4 * static_cast<std::int64_t>(order.size());
    const auto peak = static_cast<std::size_t>(std::max_element(needs.begin(), needs.end()) - needs.begin());
    const Index op = order[peak];
    const std::optional<Cut> cut = cuts_.before(op, work_left_);
    if (!cut) return;
    const Bytes bound = cut->alive + model_.making[at(op)] - model_.over_at_most[at(op)];
    if (bound >= height_.load) return;
    if (!change_by_cut(order, op, *cut) && !change_by_window(order, needs, peak, bound)) return;
  }
}

bool Improving::take_if_better(std::vector<Index>& order, std::vector<Index> other) {
  work_left_ -= 2 * static_cast<std::int64_t>(other.size());
  const Height height = height_of(needs_of(model_, other));
  if (!(height < height_)) return false;
  order = std::move(other);
  height_ = height;
  tell_.order(name_, height.load);
  return true;
}

// What may run before the op with the fewest bytes alive runs first, then the op, at once or in its place.
bool Improving::change_by_cut(std::vector<Index>& order, Index op, const Cut& cut) {
  std::vector<Index> ops = order;
  const auto first = std::stable_partition(ops.begin(), ops.end(), [&](Index k) { return cut.in_set[at(k)]; });
  if (take_if_better(order, joined(in_blocks(blocks_, ops)))) return true;
  std::rotate(first, std::find(first, ops.end(), op), std::find(first, ops.end(), op) + 1);
  return take_if_better(order, joined(in_blocks(blocks_, ops)));
}

bool Improving::change_by_window(std::vector<Index>& order, std::span<const Bytes> needs, std::size_t peak,
                                 Bytes enough) {
  const std::vector<std::vector<Index>> blocks = in_blocks(blocks_, order);
  std::vector<std::size_t> begins = {0};  // per block, its first op in the order; the end
  for (const auto& block : blocks) begins.push_back(begins.back() + block.size());
  const auto center =
      static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), peak) - begins.begin()) - 1;
  for (const std::size_t size : kWindowSizes) {
    for (const std::size_t before : {size / 2, size / 4, 3 * size / 4}) {
      if (work_left_ <= 0) return false;
      const std::size_t begin = center - std::min(center, before), end = std::min(blocks.size(), begin + size);
      const auto inside = needs.subspan(begins[begin], begins[end] - begins[begin]);
      const Bytes limit = *std::max_element(inside.begin(), inside.end());
      OrderState state(model_);
      for (std::size_t k = 0; k < begins[begin]; ++k) state.run(order[k]);
      work_left_ -= static_cast<std::int64_t>(begins[begin]);
      const auto window = std::span(blocks).subspan(begin, end - begin);
      const IdealSearch asked{std::min(kWorkOfWindow, work_left_), enough, limit};
      const BestWay found = best_way(model_, state, window, asked, deadline_, work_left_);
      if (!found.ops) continue;
      std::vector<Index> ops = order;
      std::copy(found.ops->begin(), found.ops->end(), ops.begin() + static_cast<std::ptrdiff_t>(begins[begin]));
      if (take_if_better(order, std::move(ops))) return true;
    }
    if (size >= blocks.size()) return false;
  }
  return false;
}

}  // namespace memplan
