#include "caching/allocator.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace memplan {

namespace {

// Where the device gives addresses. What it would really give decides nothing but ties.
constexpr Address kFirstAddress = Address{1} << 60, kLastAddress = Address{1} << 61, kPages = Address{1} << 61;
constexpr Bytes kOwnSegment = 10 * kMiB, kSegmentUnit = 2 * kMiB;

}  // namespace

Bytes CachingSettings::rounded(Bytes size) const {
  if (size < kSmallest) return kSmallest;
  const int log = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size))) - 1;
  const Bytes divisions = roundup_divisions[at(std::clamp(log - 20, 0, 15))];
  if (divisions > 1 && size / divisions >= kSmallest && size > kSmallest * divisions) {
    if (std::has_single_bit(static_cast<std::uint64_t>(size))) return size;
    const Bytes power = Bytes{1} << log;
    const Bytes part = power >> (std::bit_width(static_cast<std::uint64_t>(divisions)) - 1);
    if (part == 0) return power > kMaxBytes / 2 ? kMaxBytes : power * 2;
    const Bytes floor = align_down(size, part);
    return floor == size ? size : saturated_add(floor, part);
  }
  return align_down(saturated_add(size, kSmallest - 1), kSmallest);
}

CachingAllocator::CachingAllocator(const CachingSettings& settings, std::span<const CachingPool> pools)
    : settings_(settings), pools_(pools.begin(), pools.end()) {
  settings_.capacity = std::min(settings_.capacity, kMostReserved);
  Index groups = 0;
  for (const CachingPool& pool : pools_) groups = std::max(groups, pool.group + 1);
  shelves_.resize(2 * at(groups));
}

CachingAllocator::Key CachingAllocator::key(Index b) const {
  const Block& block = blocks_[at(b)];
  return {stream(block.pool), block.size, block.rank, block.address, b};
}

CachingAllocator::Key CachingAllocator::unmapped_key(Index b) const {
  const Block& block = blocks_[at(b)];
  return {stream(block.pool), 0, 0, block.address, b};
}

Index CachingAllocator::make(const Block& made) {
  Index b = static_cast<Index>(blocks_.size());
  if (unused_.empty()) {
    blocks_.push_back(made);
  } else {
    b = unused_.back();
    unused_.pop_back();
    block(b) = made;
  }
  if (settings_.ties == CachingTies::block) block(b).rank = next_rank(CachingTies::block);
  return b;
}

void CachingAllocator::shelve(Index b) {
  Shelf& on = shelf(block(b));
  block(b).age_base = on.searches;
  on.free.insert(key(b));
}

void CachingAllocator::splice(Index b, Index before, Index after) {
  block(b).prev = before;
  block(b).next = after;
  if (before != kNone) block(before).next = b;
  if (after != kNone) block(after).prev = b;
}

std::vector<Index> CachingAllocator::adopt(const CachingSegment& segment, std::span<const Standing> used) {
  const Block pattern{segment.address, 0, segment.pool, segment.small};
  Index last = kNone, expandable = kNone;
  if (segment.expandable) {
    for (std::size_t k = 0; k < expandables_.size(); ++k) {
      const Block& of = block(expandables_[k].last);
      if (of.pool == segment.pool && of.small == segment.small) expandable = static_cast<Index>(k);
    }
    if (expandable == kNone) {
      const Index rest = add_expandable(pattern, segment.address, kPageSpace);
      shelf(block(rest)).unmapped.insert(unmapped_key(rest));
      expandable = block(rest).expandable;
    }
    // What is unmapped behind the last one is cut in three: before the segment, the segment, and behind
    const Index rest = expandables_[at(expandable)].last;
    shelf(block(rest)).unmapped.erase(unmapped_key(rest));
    last = block(rest).prev;
    const Address from = block(rest).address;
    if (segment.address > from) {
      Block gap = block(rest);
      gap.size = static_cast<Bytes>(segment.address - from);
      const Index b = make(gap);
      splice(b, last, rest);
      set_head(b);
      shelf(gap).unmapped.insert(unmapped_key(b));
      last = b;
    }
    block(rest).size -= static_cast<Bytes>(segment.address - from) + segment.size;
    block(rest).address = segment.address + static_cast<Address>(segment.size);
  }
  const std::uint64_t rank =
      segment.expandable ? block(expandables_[at(expandable)].last).rank : next_rank(CachingTies::segment);
  const Index behind = segment.expandable ? expandables_[at(expandable)].last : kNone;
  std::vector<Index> made;
  const auto add = [&](Address address, Bytes size, bool is_used) {
    Block b = pattern;
    b.address = address;
    b.size = size;
    b.used = is_used;
    b.expandable = expandable;
    b.rank = rank;
    const Index k = make(b);
    splice(k, last, behind);
    if (!segment.expandable && last == kNone) heads_[segment.address] = {k, segment.size};
    set_head(k);
    if (!is_used) shelve(k);
    last = k;
    return k;
  };
  Address end = segment.address;
  for (const Standing& one : used) {
    if (one.address > end) add(end, static_cast<Bytes>(one.address - end), false);
    made.push_back(add(one.address, one.size, true));
    allocated_ += one.size;
    end = one.address + static_cast<Address>(one.size);
  }
  const Address whole = segment.address + static_cast<Address>(segment.size);
  if (end < whole) add(end, static_cast<Bytes>(whole - end), false);
  if (behind != kNone) shelf(block(behind)).unmapped.insert(unmapped_key(behind));
  reserved_ = saturated_add(reserved_, segment.size);
  return made;
}

bool CachingAllocator::should_split(const Block& found, Bytes size) const {
  const Bytes rest = found.size - size;
  if (found.small || settings_.expandable_segments) return rest >= kSmallest;
  return size < settings_.max_split_size && rest > kSmall;
}

Bytes CachingAllocator::segment_for(Bytes size) const {
  if (size <= kSmall) return kSmallSegment;
  if (size < kOwnSegment) return settings_.large_segment;
  return align_down(saturated_add(size, kSegmentUnit - 1), kSegmentUnit);
}

Index CachingAllocator::allocate(Bytes requested, Index pool, std::optional<Address> offered) {
  offered_ = offered;
  const Bytes size = settings_.rounded(requested);
  const bool small = size <= kSmall;
  Shelf& on = shelves_[at(2 * pools_[at(pool)].group + small)];
  Index found = find(on, pool, size);
  if (found == kNone) {
    if (settings_.limit != kMaxBytes && settings_.garbage_collection_threshold > 0) collect_garbage();
    found = add_segment(pool, small, size);
    if (found == kNone && release_oversize(on, pool, size)) found = add_segment(pool, small, size);
    if (found == kNone) {
      release_cached();
      ++retries_;
      found = add_segment(pool, small, size);
    }
    if (found == kNone) return kNone;
  }
  if (should_split(block(found), size)) {
    Block front = block(found);
    front.size = size;
    const Index b = make(front);
    splice(b, front.prev, found);
    set_head(b);
    block(found).address += static_cast<Address>(size);
    block(found).size -= size;
    shelve(found);
    found = b;
  }
  block(found).used = true;
  allocated_ = saturated_add(allocated_, block(found).size);
  return found;
}

Index CachingAllocator::find(Shelf& on, Index pool, Bytes size) {
  if (settings_.limit != kMaxBytes && settings_.garbage_collection_threshold > 0) ++on.searches;
  const std::uint64_t mine = stream(pool);
  auto it = on.free.lower_bound({mine, size, 0, 0, kNone});
  const auto ends = [&](Blocks::const_iterator i) { return i == on.free.end() || i->stream != mine; };
  if (ends(it)) return kNone;
  const auto expands = [&](Blocks::const_iterator i) { return block(i->block).expandable != kNone; };
  if (expands(it)) {
    if (settings_.expandable_segments) {
      const auto could_be = [&](Blocks::const_iterator i) {
        const Index next = block(i->block).next;
        return saturated_add(i->size, next != kNone && !block(next).mapped ? block(next).size : 0);
      };
      for (auto next = std::next(it); expands(it) && !ends(next) && could_be(next) < could_be(it);) it = next++;
    } else {
      do {
        ++it;
      } while (it != on.free.end() && expands(it) && it->stream == mine);
      if (ends(it)) return kNone;
    }
  }
  if (size < settings_.max_split_size && it->size >= settings_.max_split_size) return kNone;
  if (size >= settings_.max_split_size && it->size >= saturated_add(size, settings_.max_non_split_rounding))
    return kNone;
  const Index found = it->block;
  on.free.erase(it);
  return found;
}

void CachingAllocator::set_head(Index b) {
  const Block& first = block(b);
  if (first.prev != kNone) return;
  if (first.expandable != kNone) {
    expandables_[at(first.expandable)].head = b;
  } else if (const auto head = heads_.find(first.address); head != heads_.end()) {
    head->second.block = b;
  }
}

bool CachingAllocator::is_vacant(Address address, Bytes size) const {
  const auto after = heads_.lower_bound(address);
  if (after != heads_.end() && after->first - address < static_cast<Address>(size)) return false;
  if (after == heads_.begin()) return true;
  const auto before = std::prev(after);
  return address - before->first >= static_cast<Address>(before->second.size);
}

Address CachingAllocator::new_address(Bytes size) {
  if (const auto offered = std::exchange(offered_, std::nullopt); offered && is_vacant(*offered, size)) return *offered;
  const auto last = heads_.lower_bound(kLastAddress);
  Address address = kFirstAddress;
  if (last != heads_.begin()) {
    const auto& [begin, head] = *std::prev(last);
    address = std::max(address, begin + static_cast<Address>(head.size + kSegmentUnit));
  }
  if (address < kLastAddress && is_vacant(address, size)) return address;
  for (address = kFirstAddress; !is_vacant(address, size);) address += static_cast<Address>(kMostReserved);
  return address;
}

// The unmapped bytes of a new expandable segment, as one block.
Index CachingAllocator::add_expandable(const Block& pattern, Address begin, Bytes space) {
  const Bytes page = pattern.small ? kSmallSegment : settings_.large_segment;
  Block whole = pattern;
  whole.address = begin;
  whole.size = align_up(space, page);
  whole.mapped = false;
  whole.expandable = static_cast<Index>(expandables_.size());
  whole.rank = next_rank(CachingTies::segment);
  const Index b = make(whole);
  expandables_.push_back({begin, page, whole.size, b, b});
  return b;
}

Index CachingAllocator::add_segment(Index pool, bool small, Bytes size) {
  const Bytes whole = segment_for(size), after = saturated_add(reserved_, whole);
  if (after > std::min(settings_.limit, kMostReserved)) return kNone;
  if (settings_.expandable_segments) return expand(pool, small, size);
  if (after > settings_.capacity) return kNone;
  Block all{new_address(whole), whole, pool, small};
  all.rank = next_rank(CachingTies::segment);
  const Index b = make(all);
  heads_[block(b).address] = {b, whole};
  reserved_ = after;
  changes_.push_back({CachingAction::add_segment, block(b).address, whole});
  return b;
}

Index CachingAllocator::expandable_block(Index pool, bool small, Bytes size) {
  Shelf& on = shelves_[at(2 * pools_[at(pool)].group + small)];
  const auto is_free = [&](Index b) { return b != kNone && !block(b).used; };
  const std::uint64_t mine = stream(pool);
  for (auto it = on.unmapped.lower_bound({mine, 0, 0, 0, kNone}); it != on.unmapped.end() && it->stream == mine; ++it) {
    Index from = it->block;
    if (is_free(block(from).prev)) from = block(from).prev;
    Bytes room = 0;
    for (Index b = from; room < size && is_free(b); b = block(b).next) room = saturated_add(room, block(b).size);
    if (room >= size) return from;
  }
  const Bytes device = settings_.capacity == kMostReserved ? kPageSpace : settings_.capacity + settings_.capacity / 8;
  const Block pattern{0, 0, pool, small};
  const Address begin =
      kPages + static_cast<Address>(expandables_.size() % 1024) * static_cast<Address>(4 * kMostReserved);
  const Index b = add_expandable(pattern, offered_.value_or(begin), device);
  on.unmapped.insert(unmapped_key(b));
  return b;
}

bool CachingAllocator::map(Index b, Bytes size) {
  const Expandable& of = expandables_[at(block(b).expandable)];
  const Address offset = block(b).address - of.begin;
  const auto page = static_cast<Address>(of.page);
  const Address end = (offset + static_cast<Address>(size) + page - 1) / page * page;
  const Bytes mapped = static_cast<Bytes>(end - offset / page * page);
  if (saturated_add(reserved_, mapped) > settings_.capacity) return false;
  Shelf& on = shelf(block(b));
  on.unmapped.erase(unmapped_key(b));
  block(b).mapped = true;
  if (mapped < block(b).size) {
    Block rest = block(b);
    rest.address += static_cast<Address>(mapped);
    rest.size -= mapped;
    rest.mapped = false;
    const Index behind = make(rest);
    splice(behind, b, block(b).next);
    on.unmapped.insert(unmapped_key(behind));
    block(b).size = mapped;
  }
  const Address begins = block(b).address;
  merge(b, block(b).prev);
  merge(b, block(b).next);
  shelve(b);
  reserved_ = saturated_add(reserved_, mapped);
  changes_.push_back({CachingAction::map_pages, begins, mapped});
  return true;
}

Index CachingAllocator::expand(Index pool, bool small, Bytes size) {
  Index from = expandable_block(pool, small, size);
  if (!block(from).mapped && !map(from, std::min(block(from).size, size))) return kNone;
  while (block(from).size < size) {
    const Index next = block(from).next;
    if (next == kNone || !map(next, std::min(size - block(from).size, block(next).size))) return kNone;
    from = next;  // which the free block before it has joined
  }
  shelf(block(from)).free.erase(key(from));
  return from;
}

bool CachingAllocator::merge(Index into, Index from) {
  if (from == kNone || block(from).used || block(into).mapped != block(from).mapped) return false;
  Shelf& on = shelf(block(from));
  if (block(from).mapped) {
    on.free.erase(key(from));
  } else {
    on.unmapped.erase(unmapped_key(from));
  }
  Block &one = block(into), &gone = block(from);
  if (one.prev == from) {
    one.address = gone.address;
    one.prev = gone.prev;
    if (one.prev != kNone) block(one.prev).next = into;
    set_head(into);
  } else {
    one.next = gone.next;
    if (one.next != kNone) block(one.next).prev = into;
  }
  one.size += gone.size;
  unused_.push_back(from);
  return true;
}

void CachingAllocator::free(Index b) {
  pending_.erase(b);
  allocated_ -= block(b).size;
  block(b).used = false;
  merge(b, block(b).prev);
  merge(b, block(b).next);
  shelve(b);
}

bool CachingAllocator::release_oversize(Shelf& on, Index pool, Bytes size) {
  if (settings_.max_split_size == kMaxBytes) return false;
  const Bytes wanted = std::max(size, settings_.max_split_size);
  const std::uint64_t mine = stream(pool);
  auto it = on.free.lower_bound({mine, wanted, 0, 0, kNone});
  const auto give = [&](Index b) {
    if (block(b).expandable == kNone && !is_split(b)) {
      release(b);
      return true;
    }
    return false;
  };
  if (it != on.free.end() && it->stream == mine) return give(it->block);
  if (it == on.free.begin()) return false;
  Bytes released = 0;
  for (--it; released < wanted && it->size >= settings_.max_split_size && it->stream == mine;) {
    const Key largest = *it;
    const bool last = it == on.free.begin();
    if (!last) --it;
    if (give(largest.block)) released = saturated_add(released, largest.size);
    if (last) break;
  }
  return released >= wanted;
}

void CachingAllocator::release(Index b) {
  const Block gone = block(b);
  changes_.push_back({CachingAction::drop_segment, gone.address, gone.size});
  shelf(gone).free.erase(key(b));
  heads_.erase(gone.address);
  reserved_ -= gone.size;
  unused_.push_back(b);
}

CachingAllocator::Change CachingAllocator::unmap_pages(Index b) {
  const Expandable& of = expandables_[at(block(b).expandable)];
  const auto page = static_cast<Address>(of.page);
  const Address begin = (block(b).address - of.begin + page - 1) / page * page + of.begin;
  const Address end = (block(b).address + static_cast<Address>(block(b).size) - of.begin) / page * page + of.begin;
  if (begin >= end) return {CachingAction::unmap_pages, begin, 0};
  Shelf& on = shelf(block(b));
  on.free.erase(key(b));
  const Block whole = block(b);
  const Address behind = whole.address + static_cast<Address>(whole.size);
  if (begin > whole.address) {
    Block before = whole;
    before.size = static_cast<Bytes>(begin - whole.address);
    const Index k = make(before);
    splice(k, whole.prev, b);
    set_head(k);
    shelve(k);
  }
  if (end < behind) {
    Block after = whole;
    after.address = end;
    after.size = static_cast<Bytes>(behind - end);
    const Index k = make(after);
    splice(k, b, whole.next);
    shelve(k);
  }
  block(b).address = begin;
  block(b).size = static_cast<Bytes>(end - begin);
  block(b).mapped = false;
  merge(b, block(b).prev);
  merge(b, block(b).next);
  on.unmapped.insert(unmapped_key(b));
  if (!is_split(b)) {  // the whole expandable segment
    on.unmapped.erase(unmapped_key(b));
    expandables_[at(block(b).expandable)].head = kNone;
    unused_.push_back(b);
  }
  reserved_ -= static_cast<Bytes>(end - begin);
  changes_.push_back({CachingAction::unmap_pages, begin, static_cast<Bytes>(end - begin)});
  return changes_.back();
}

void CachingAllocator::release_all(Shelf& on) {
  std::vector<Index> pages;
  for (auto it = on.free.begin(); it != on.free.end();) {
    const Index b = (it++)->block;
    if (block(b).expandable != kNone) {
      pages.push_back(b);
    } else if (!is_split(b)) {
      release(b);
    }
  }
  for (const Index b : pages) unmap_pages(b);
}

void CachingAllocator::release_cached() {
  while (!pending_.empty()) {
    completed_.push_back(*pending_.begin());
    free(completed_.back());
  }
  release_all(shelves_[0]);  // those of private pools stay as long as a graph may run
  release_all(shelves_[1]);
}

void CachingAllocator::empty_cache() { release_cached(); }

bool CachingAllocator::drop(Address segment) {
  const auto head = heads_.find(segment);
  if (head == heads_.end()) return false;
  const Index b = head->second.block;
  if (block(b).used || is_split(b)) return false;
  release(b);
  return true;
}

CachingAllocator::Change CachingAllocator::unmap(Address address, Bytes size) {
  const Change none{CachingAction::unmap_pages, address, 0};
  const Address end = address + static_cast<Address>(size);
  for (const Expandable& of : expandables_) {
    if (of.head == kNone || address < of.begin || address - of.begin >= static_cast<Address>(of.space)) continue;
    Index b = of.head;
    while (b != kNone && block(b).address + static_cast<Address>(block(b).size) < end) b = block(b).next;
    if (b != kNone && !block(b).used && block(b).mapped && block(b).address <= address) return unmap_pages(b);
  }
  return none;
}

void CachingAllocator::collect_garbage() {
  const auto threshold =
      static_cast<Bytes>(settings_.garbage_collection_threshold * static_cast<double>(settings_.limit));
  if (reserved_ <= threshold) return;
  const Bytes target = reserved_ - threshold;
  Shelf& large = shelves_[0];
  const auto age = [&](Index b) { return large.searches - block(b).age_base; };
  std::int64_t ages = 0, count = 0;
  for (const Key& k : large.free) {
    if (is_split(k.block)) continue;
    ages += age(k.block);
    ++count;
  }
  Bytes reclaimed = 0;
  for (bool any = true; any && reclaimed < target && count > 0;) {
    const double old = static_cast<double>(ages) / static_cast<double>(count);
    any = false;
    for (auto it = large.free.begin(); it != large.free.end();) {
      const Index b = (it++)->block;
      if (is_split(b) || block(b).expandable != kNone || static_cast<double>(age(b)) < old) continue;
      any = true;
      reclaimed = saturated_add(reclaimed, block(b).size);
      ages -= age(b);
      --count;
      release(b);
    }
  }
}

std::vector<CachingAllocator::Run> CachingAllocator::runs() const {
  std::vector<Run> found;
  const auto walk = [&](Index head) {
    bool open = false;
    for (Index b = head; b != kNone; b = blocks_[at(b)].next) {
      const Block& one = blocks_[at(b)];
      if (one.mapped && !open) found.push_back({{one.address, 0, one.pool, one.small, one.expandable != kNone}, {}});
      open = one.mapped;
      if (!open) continue;
      found.back().segment.size += one.size;
      found.back().blocks.push_back(b);
    }
  };
  for (const auto& [address, head] : heads_) walk(head.block);
  for (const Expandable& of : expandables_) walk(of.head);
  return found;
}

}  // namespace memplan
