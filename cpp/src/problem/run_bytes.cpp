#include "problem/run_bytes.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace memplan {

RunBytes::RunBytes(std::span<const std::string> paths) {
  std::unordered_map<std::string_view, Index> known = {{"", 0}};  // switches and branches, by the path that leads there
  for (const std::string& text : paths) {
    const std::string_view path = text;
    Index branch = 0;
    for (std::size_t end = 0; end < path.size();) {
      const std::size_t name = path.find('/', end + (end > 0 ? 1 : 0));
      const auto [at_switch, new_switch] =
          known.try_emplace(path.substr(0, name), static_cast<Index>(switches_.size()));
      if (new_switch) switches_.push_back({branch});
      end = std::min(path.find('/', name + 1), path.size());
      const auto [inside, new_branch] = known.try_emplace(path.substr(0, end), static_cast<Index>(branches_.size()));
      if (new_branch) {
        branches_.push_back({at_switch->second});
        switches_[at(at_switch->second)].branches.push_back(inside->second);
      }
      branch = inside->second;
    }
    branch_of_.push_back(branch);
  }
}

void RunBytes::add(Index buffer, Bytes bytes) {
  for (Branch* branch = &branches_[at(branch_of_[at(buffer)])];;) {
    branch->bytes += bytes;
    if (branch->of == kNone) return;
    Switch& chosen = switches_[at(branch->of)];
    Bytes heaviest = 0;
    for (const Index b : chosen.branches) heaviest = std::max(heaviest, branches_[at(b)].bytes);
    bytes = heaviest - chosen.heaviest;
    if (bytes == 0) return;
    chosen.heaviest = heaviest;
    branch = &branches_[at(chosen.inside)];
  }
}

}  // namespace memplan
