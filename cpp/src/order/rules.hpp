// The rules and searches of the table of orders: each is a function from a ContentsModel to orders, the best first.
#pragma once

#include <cstdint>

#include "base/deadline.hpp"
#include "memplan/order_info.hpp"
#include "memplan/parameters.hpp"
#include "order/blocks.hpp"
#include "order/contents_model.hpp"
#include "order/order_reporter.hpp"

namespace memplan {

struct OrderTask {
  const ContentsModel& model;
  const Settings& set;
  const Deadline& deadline;  // when it passes, searches keep their best; rules throw, and the given order is taken
  OrderReporter& tell;       // for searches; the order that comes of it is told anyway
};

inline constexpr Parameter kOrderWork[] = {
    {"work", "steps of some nanoseconds, after which the search ends", 60'000'000, 0, 1'000'000'000'000'000}};

// The orders with which windows may begin: the given order, or a list by its place in list_rules().
inline constexpr std::string_view kStartsOfWindows[] = {
    "given",           "growth",           "release",           "newest",
    "oldest",          "growth_backwards", "release_backwards", "newest_backwards",
    "oldest_backwards"};
inline constexpr Parameter kWindowsParameters[] = {
    kOrderWork[0], {"start", "the order that is made better", 0, 0, 0, kStartsOfWindows}};

inline constexpr Parameter kExactWork[] = {
    {"work", "steps of some nanoseconds, after which the search ends", 1'000'000'000, 0, 1'000'000'000'000'000}};

FoundOrders given_order(const OrderTask& task);
FoundOrders best_orders(const OrderTask& task);
FoundOrders hill_valley_order(const OrderTask& task);
FoundOrders exact_order(const OrderTask& task);
FoundOrders windows_order(const OrderTask& task);

// The orders of Inductor. torch's buffers are contents here. A workspace is a buffer of its op alone.
FoundOrders lpmf_order(const OrderTask& task);
FoundOrders bfs_order(const OrderTask& task);
FoundOrders dfs_order(const OrderTask& task);

// The order of hill_valley, for searches that have blocks. Blocks that need more than the limit wait until they need
// less, as long as others may run. The deadline throws.
std::vector<Index> hill_valley(const ContentsModel& model, const Blocks& blocks, const Deadline& deadline,
                               Bytes limit = kMaxBytes);

// The ops of the model as they are listed.
std::vector<Index> as_given(const ContentsModel& model);

}  // namespace memplan
