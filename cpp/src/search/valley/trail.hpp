// Trail: changes in order, to be undone from the end. The oldest entries may be forgotten.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace memplan {

template <class Change>
class Trail {
 public:
  // A position: how many changes there were before it, the forgotten ones included.
  std::size_t end() const { return forgotten_ + changes_.size(); }

  void push(Change change) { changes_.push_back(std::move(change)); }

  // Calls f(change) for all changes since the position, the last first, and removes them.
  template <class F>
  void take_back(std::size_t position, F&& f) {
    for (; end() > position; changes_.pop_back()) f(changes_.back());
  }

  // The changes since the position, in their order; valid until the next change.
  std::span<const Change> since(std::size_t position) const {
    return std::span(changes_).subspan(position - forgotten_);
  }

  // Nothing before the position will be taken back.
  void forget(std::size_t position) {
    changes_.erase(changes_.begin(), changes_.begin() + static_cast<std::ptrdiff_t>(position - forgotten_));
    forgotten_ = position;
  }

  void clear() {
    changes_.clear();
    forgotten_ = 0;
  }

 private:
  std::vector<Change> changes_;
  std::size_t forgotten_ = 0;
};

}  // namespace memplan
