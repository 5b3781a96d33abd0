// The memory of a GPU that no arena serves: taken from CUDA in segments, cut into blocks, and kept for later.
//
// A block that is free is given out again only in the stream that it was allocated in: what the old owner has queued
// there comes before what the new owner will queue. Where the program has used a block in other streams too, the caller
// keeps it back until they have come past that use (cuda_events.hpp).
//
//   segment   | block in use | free block | block in use |   free neighbours are one block
//
// Sizes of segments are those of torch's allocator. Not safe across threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "cuda_driver.hpp"

namespace memplan::run {

constexpr std::size_t kGranule = 512;  // sizes are rounded up to it, addresses are multiples of it
constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kSmall = kMiB;  // blocks up to here share small segments
constexpr std::size_t kSmallSegment = 2 * kMiB, kLargeSegment = 20 * kMiB, kOwnSegment = 10 * kMiB;

struct Block {
  char* address;
  std::size_t size;
  int device;
  Stream stream;
  bool small;
  bool free = true;
  Block *before = nullptr, *after = nullptr;  // the neighbours in the segment
};

// Bytes of a device, now and at most.
struct CudaFigures {
  std::int64_t reserved = 0, reserved_peak = 0;    // taken from CUDA, arenas included
  std::int64_t allocated = 0, allocated_peak = 0;  // in blocks that are not free, without arenas
  std::int64_t arenas = 0;                         // reserved for arenas
  std::int64_t taken = 0, given_back = 0;          // how often CUDA was asked for memory, and given some back
  std::int64_t reused = 0;                         // allocations that found a free block

  void reserve(std::int64_t change) { reserved_peak = std::max(reserved_peak, reserved += change); }
  void allocate(std::int64_t change) { allocated_peak = std::max(allocated_peak, allocated += change); }
};

class CudaCache {
 public:
  explicit CudaCache(const Driver& driver) : driver_(driver) {}

  // Memory for `size` > 0 bytes; nullptr if CUDA has none, after all free segments went back. Throws std::runtime_error
  // for any other error of CUDA.
  Block* allocate(std::size_t size, int device, Stream stream) {
    const std::size_t rounded = round_up(size, kGranule);
    Block* block = reusable(rounded, device, stream);
    if (block == nullptr) block = new_segment(rounded, device, stream);
    if (block == nullptr) return nullptr;
    split(block, rounded);
    block->free = false;
    figures_[device].allocate(static_cast<std::int64_t>(block->size));
    return block;
  }

  // The block in use that begins there, or nullptr.
  Block* at(void* address) {
    const auto found = blocks_.find(address);
    return found == blocks_.end() || found->second->free ? nullptr : found->second.get();
  }

  // The block may be given out again in its stream.
  void free(Block* block) {
    figures_[block->device].allocate(-static_cast<std::int64_t>(block->size));
    block->free = true;
    if (block->after != nullptr && block->after->free) merge(block);
    if (block->before != nullptr && block->before->free) merge(block = block->before);
    free_[key(*block)].insert(block);
  }

  // Give the segments of a device, or of all, in which nothing is in use back to CUDA, which waits for the device.
  void trim(std::optional<int> device = {}) {
    for (auto& [where, blocks] : free_) {
      if (device && std::get<0>(where) != *device) continue;
      for (auto at = blocks.begin(); at != blocks.end();) {
        Block* const block = *at;
        const bool whole = block->before == nullptr && block->after == nullptr;
        at = whole ? blocks.erase(at) : std::next(at);
        if (whole) give_back(block);
      }
    }
  }

  // Memory that is no block, for an arena; nullptr if CUDA has none.
  void* take(std::size_t bytes, int device) {
    void* const memory = from_cuda(bytes, device);
    if (memory != nullptr) figures_[device].arenas += static_cast<std::int64_t>(bytes);
    return memory;
  }

  void give(void* memory, std::size_t bytes, int device) {
    figures_[device].arenas -= static_cast<std::int64_t>(bytes);
    to_cuda(memory, bytes, device);
  }

  CudaFigures& figures(int device) { return figures_[device]; }

 private:
  using Key = std::tuple<int, Stream, bool>;  // device, stream, small
  struct Smaller {
    bool operator()(const Block* a, const Block* b) const {
      return std::tie(a->size, a->address) < std::tie(b->size, b->address);
    }
  };

  static Key key(const Block& block) { return {block.device, block.stream, block.small}; }
  static std::size_t round_up(std::size_t size, std::size_t to) {
    if (size > SIZE_MAX - to) throw std::runtime_error("an allocation of " + std::to_string(size) + " bytes");
    return (size + to - 1) / to * to;
  }

  // The smallest free block that is large enough.
  Block* reusable(std::size_t size, int device, Stream stream) {
    const auto blocks = free_.find({device, stream, size <= kSmall});
    if (blocks == free_.end()) return nullptr;
    Block least{nullptr, size, device, stream, false};
    const auto at = blocks->second.lower_bound(&least);
    if (at == blocks->second.end()) return nullptr;
    Block* const block = *at;
    blocks->second.erase(at);
    ++figures_[device].reused;
    return block;
  }

  Block* new_segment(std::size_t size, int device, Stream stream) {
    const bool small = size <= kSmall;
    const std::size_t bytes = small ? kSmallSegment : size < kOwnSegment ? kLargeSegment : round_up(size, 2 * kMiB);
    void* const memory = from_cuda(bytes, device);
    return memory == nullptr ? nullptr : made({static_cast<char*>(memory), bytes, device, stream, small});
  }

  // Cuts off what the block has beyond `size`, if that is worth a block.
  void split(Block* block, std::size_t size) {
    const std::size_t rest = block->size - size;
    if (block->small ? rest < kGranule : rest <= kSmall) return;
    Block* const cut = made({block->address + size, rest, block->device, block->stream, block->small});
    cut->before = block;
    cut->after = std::exchange(block->after, cut);
    if (cut->after != nullptr) cut->after->before = cut;
    block->size = size;
    free_[key(*cut)].insert(cut);
  }

  // Makes one block of a block and the one after it.
  void merge(Block* block) {
    Block* const next = block->after;
    for (Block* const part : {block, next}) free_[key(*part)].erase(part);
    block->size += next->size;
    block->after = next->after;
    if (block->after != nullptr) block->after->before = block;
    blocks_.erase(next->address);
  }

  void give_back(Block* block) {
    const auto held = std::move(blocks_.extract(block->address).mapped());
    to_cuda(held->address, held->size, held->device);
  }

  Block* made(Block block) {
    auto& held = blocks_[block.address] = std::make_unique<Block>(block);
    return held.get();
  }

  void* from_cuda(std::size_t bytes, int device) {
    const OnDevice on(driver_, device);
    void* memory = nullptr;
    int error = driver_.Malloc(&memory, bytes);
    if (error == kOutOfMemory) {
      driver_.GetLastError();
      trim(device);
      error = driver_.Malloc(&memory, bytes);
    }
    if (error == kOutOfMemory) {
      driver_.GetLastError();
      return nullptr;
    }
    driver_.check(error, "cudaMalloc");
    figures_[device].reserve(static_cast<std::int64_t>(bytes));
    ++figures_[device].taken;
    return memory;
  }

  void to_cuda(void* memory, std::size_t bytes, int device) {
    const OnDevice on(driver_, device);
    figures_[device].reserve(-static_cast<std::int64_t>(bytes));
    ++figures_[device].given_back;
    if (driver_.Free(memory) != kSuccess) driver_.GetLastError();  // as at the end of the program
  }

  const Driver& driver_;
  std::unordered_map<void*, std::unique_ptr<Block>> blocks_;  // all of them, by address
  std::map<Key, std::set<Block*, Smaller>> free_;
  std::map<int, CudaFigures> figures_;
};

}  // namespace memplan::run
