// OrderReporter: tells the caller of each better order that a search finds, and of each higher bound.
#pragma once

#include <string>
#include <string_view>

#include "memplan/order_info.hpp"

namespace memplan {

class OrderReporter {
 public:
  explicit OrderReporter(const OnOrder& on_order) : on_order_(on_order) {}  // which outlives it

  // An order, and the bytes that it needs.
  void order(std::string_view name, Bytes needed) {
    if (has_order_ && needed >= so_far_.needed) return;
    so_far_.found_by = name;
    so_far_.needed = needed;
    has_order_ = true;
    tell();
  }

  // No order needs less.
  void bound(Bytes bytes) {
    if (bytes <= so_far_.bound) return;
    so_far_.bound = bytes;
    if (has_order_) tell();
  }

 private:
  void tell() const {
    if (on_order_) on_order_(so_far_);
  }

  const OnOrder& on_order_;
  OrderProgress so_far_;
  bool has_order_ = false;
};

}  // namespace memplan
