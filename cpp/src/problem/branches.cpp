#include "memplan/branches.hpp"

#include <map>
#include <utility>

#include "memplan/errors.hpp"

namespace memplan {

namespace {

// "a/b/c/d" as (a, b), (c, d).
std::vector<std::pair<std::string, std::string>> choices_of(std::string_view path) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; !path.empty() && begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    words.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<std::pair<std::string, std::string>> choices;
  for (std::size_t k = 0; k + 1 < words.size(); k += 2) choices.emplace_back(words[k], words[k + 1]);
  return choices;
}

}  // namespace

std::string wrong_branch(std::string_view path) {
  std::size_t words = path.empty() ? 0 : 1, length = 0;
  bool is_empty = false;
  for (const char c : path) {
    is_empty |= c == '/' && length == 0;
    words += c == '/' ? 1 : 0;
    length = c == '/' ? 0 : length + 1;
  }
  if (path.empty() || (words % 2 == 0 && !is_empty && length > 0)) return {};
  return "must be a switch and its branch, such as \"if1/then\", and so on for those inside, got " + quoted(path);
}

std::string common_branch(std::string_view a, std::string_view b) {
  const auto x = choices_of(a), y = choices_of(b);
  std::string common;
  for (std::size_t k = 0; k < std::min(x.size(), y.size()) && x[k] == y[k]; ++k)
    common += (common.empty() ? "" : "/") + x[k].first + "/" + x[k].second;
  return common;
}

Branches::Branches(std::vector<std::string> paths) : paths_(std::move(paths)), node_{{kNone, 0, kNone}} {
  std::map<std::pair<Index, std::string>, Index> switch_of;
  std::map<std::pair<Index, std::string>, Index> branch_of;
  for (const std::string& path : paths_) {
    Index node = 0;
    for (const auto& [name, branch] : choices_of(path)) {
      const auto [found, is_new] = switch_of.try_emplace({node, name}, switches_);
      if (is_new) node_[memplan::at(node)].switches.push_back(switches_++);
      const auto [inside, is_first] = branch_of.try_emplace({found->second, branch}, static_cast<Index>(node_.size()));
      if (is_first) node_.push_back({node, node_[memplan::at(node)].depth + 1, found->second});
      node = inside->second;
    }
    node_of_.push_back(node);
  }
}

bool Branches::exclusive(Index a, Index b) const {
  while (node_[memplan::at(a)].depth > node_[memplan::at(b)].depth) a = parent(a);
  while (node_[memplan::at(b)].depth > node_[memplan::at(a)].depth) b = parent(b);
  if (a == b) return false;  // one is inside of the other
  while (parent(a) != parent(b)) a = parent(a), b = parent(b);
  return node_[memplan::at(a)].at == node_[memplan::at(b)].at;
}

bool Branches::covers(Index a, Index b) const {
  const Index outer = node_of(a);
  Index node = node_of(b);
  while (node_[memplan::at(node)].depth > node_[memplan::at(outer)].depth) node = parent(node);
  return node == outer;
}

void Branches::weigh(std::span<const Bytes> bytes, std::vector<Bytes>& of_node, std::vector<Index>& of_switch) const {
  of_node.assign(bytes.begin(), bytes.end());
  of_switch.assign(memplan::at(switches_), kNone);
  for (Index node = static_cast<Index>(node_.size()) - 1; node >= 0; --node) {
    Bytes& own = of_node[memplan::at(node)];
    for (const Index inside : node_[memplan::at(node)].switches)
      own += of_node[memplan::at(of_switch[memplan::at(inside)])];
    if (node == 0) break;
    Index& best = of_switch[memplan::at(node_[memplan::at(node)].at)];
    if (best == kNone || of_node[memplan::at(best)] <= own) best = node;
  }
}

std::vector<bool> Branches::heaviest_run(std::span<const Bytes> bytes) const {
  std::vector<Bytes> of_node;
  std::vector<Index> of_switch;
  weigh(bytes, of_node, of_switch);
  std::vector<bool> runs(node_.size(), false);
  runs[0] = true;
  for (std::size_t node = 1; node < node_.size(); ++node)
    runs[node] = runs[memplan::at(node_[node].parent)] && memplan::at(of_switch[memplan::at(node_[node].at)]) == node;
  return runs;
}

}  // namespace memplan
