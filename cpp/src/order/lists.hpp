// Lists: an order is made op by op, from the beginning or the end. By a rule, each op is the best that may come next.
//
//     forwards                      backwards
//     done │ ready: a b c           ready: a b c │ done       ready from the end: all that wait for it are done
//
// O((ops + edges) log ops).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "order/contents_model.hpp"

namespace memplan {

enum class ListKey { growth, release, newest, oldest };

struct ListRule {
  std::string_view name;
  ListKey key;
  bool backwards;
};

std::span<const ListRule> list_rules();

// The deadline throws.
std::vector<Index> list_order(const ContentsModel& model, const ListRule& rule, const Deadline& deadline);

}  // namespace memplan
