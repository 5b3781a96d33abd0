"""torch's caching allocator, slowly: lists of blocks that are searched from end to end.

Written from c10/cuda/CUDACachingAllocator.cpp. It shares nothing with the core.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

MIB = 2**20
FIRST, PAGES, STEP = 2**60, 2**61, 2**52  # where a device that only counts puts segments, and address spaces


@dataclass
class Block:
    address: int
    size: int
    state: str  # "used", "free", "unmapped"
    since: int = 0  # searches of its pool when it became free
    made: int = 0


@dataclass
class Segment:
    stream: int
    small: bool
    expandable: bool
    begin: int
    blocks: list[Block]
    made: int = 0


@dataclass
class Allocator:
    split: float = float("inf")
    rounding: int = 20 * MIB
    large: int = 20 * MIB
    divisions: int = 0
    garbage: float = 0.0
    expandable: bool = False
    limit: float = float("inf")
    capacity: float = float("inf")
    ties: str = "segment"  # of equal free blocks: that of the oldest segment, the oldest block, or the lowest address
    downwards: bool = False  # the device gives addresses from above
    segments: list[Segment] = field(default_factory=list)
    spaces: int = 0
    searches: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def reserved(self) -> int:
        return sum(b.size for s in self.segments for b in s.blocks if b.state != "unmapped")

    def rounded(self, size: int) -> int:
        if size < 512:
            return 512
        if self.divisions > 1 and size > 512 * self.divisions:
            power = 2 ** (size.bit_length() - 1)
            part = power // self.divisions
            return -(-size // part) * part if part else 2 * power
        return -(-size // 512) * 512

    def allocate(self, asked: int, stream: int) -> int | None:
        size = self.rounded(asked)
        small = size <= MIB
        if self.collects:
            self.searches[small] += 1
        found = self.search(size, stream, small)
        if found is None:
            if self.collects:
                self.collect()
            found = self.grow(size, stream, small)
            if found is None and self.release_oversize(size, stream, small):
                found = self.grow(size, stream, small)
            if found is None:
                self.empty()
                found = self.grow(size, stream, small)
            if found is None:
                return None
        segment, block = found
        rest = block.size - size
        if (rest >= 512) if small or self.expandable else (size < self.split and rest > MIB):
            at = segment.blocks.index(block)
            segment.blocks.insert(at + 1, Block(block.address + size, rest, "free", self.searches[small], block.made))
            block.size, block.made = size, next(self.numbers)
        block.state = "used"
        return block.address

    @property
    def collects(self) -> bool:
        return self.garbage > 0 and self.limit < float("inf")

    def search(self, size: int, stream: int, small: bool) -> tuple[Segment, Block] | None:
        free = [
            (block.size, self.rank(segment, block), block.address, segment, block)
            for segment in self.segments
            if (segment.stream, segment.small) == (stream, small)
            for block in segment.blocks
            if block.state == "free" and block.size >= size
        ]
        free.sort(key=lambda row: row[:3])
        if not free:
            return None

        def could_be(row: tuple[int, int, int, Segment, Block]) -> int:
            _, _, _, segment, block = row
            after = segment.blocks.index(block) + 1
            behind = segment.blocks[after] if after < len(segment.blocks) else None
            return block.size + (behind.size if behind is not None and behind.state == "unmapped" else 0)

        k = 0
        if self.expandable:
            while free[k][3].expandable and k + 1 < len(free) and could_be(free[k + 1]) < could_be(free[k]):
                k += 1
        have, _, _, segment, block = free[k]
        if size < self.split <= have or (size >= self.split and have >= size + self.rounding):
            return None
        return segment, block

    def rank(self, segment: Segment, block: Block) -> int:
        return {"segment": segment.made, "block": block.made, "address": 0}[self.ties]

    def grow(self, size: int, stream: int, small: bool) -> tuple[Segment, Block] | None:
        whole = 2 * MIB if small else self.large if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if self.reserved + whole > self.limit:
            return None
        if self.expandable:
            return self.expand(size, stream, small)
        if self.reserved + whole > self.capacity:
            return None
        own = [s for s in self.segments if not s.expandable]
        end = max((s.begin + sum(b.size for b in s.blocks) + 2 * MIB for s in own), default=FIRST)
        if self.downwards:
            end = min((s.begin for s in own), default=FIRST) - 2 * MIB - whole
        made = next(self.numbers)
        segment = Segment(stream, small, False, end, [Block(end, whole, "free", made=made)], made)
        self.segments.append(segment)
        return segment, segment.blocks[0]

    def expand(self, size: int, stream: int, small: bool) -> tuple[Segment, Block] | None:
        page = 2 * MIB if small else self.large
        mine = [s for s in self.segments if s.expandable and (s.stream, s.small) == (stream, small)]
        for segment in sorted(mine, key=lambda s: s.begin):
            for k, block in enumerate(segment.blocks):
                if block.state != "unmapped":
                    continue
                first = k - 1 if k > 0 and segment.blocks[k - 1].state == "free" else k
                room = 0
                for other in segment.blocks[first:]:
                    if other.state == "used":
                        break
                    room += other.size
                if room >= size:
                    return self.fill(segment, first, size, page, small)
        device = 2**46 if self.capacity == float("inf") else int(self.capacity) + int(self.capacity) // 8
        begin = PAGES + (1023 - self.spaces % 1024 if self.downwards else self.spaces % 1024) * STEP
        self.spaces += 1
        made = next(self.numbers)
        whole = Block(begin, -(-device // page) * page, "unmapped", made=made)
        segment = Segment(stream, small, True, begin, [whole], made)
        self.segments.append(segment)
        return self.fill(segment, 0, size, page, small)

    def fill(self, segment: Segment, k: int, size: int, page: int, small: bool) -> tuple[Segment, Block] | None:
        """Maps pages from block k on, until a free block of this size begins there."""
        have = segment.blocks[k].size if segment.blocks[k].state == "free" else 0
        at = k + 1 if have else k
        while have < size:
            if at >= len(segment.blocks):
                return None
            block = segment.blocks[at]
            wanted = min(size - have, block.size)
            begin = block.address
            end = segment.begin + -(-(begin + wanted - segment.begin) // page) * page
            mapped = end - begin
            if self.reserved + mapped > self.capacity:
                return None
            pieces = [Block(begin, mapped, "free", made=block.made)]
            if mapped < block.size:
                pieces.append(Block(end, block.size - mapped, "unmapped", made=next(self.numbers)))
            segment.blocks[at : at + 1] = pieces
            address = self.join(segment, pieces[0], self.searches[small])
            at = next(i for i, b in enumerate(segment.blocks) if b.address == address)
            have = segment.blocks[at].size
            at += 1
        return segment, segment.blocks[at - 1]

    def join(self, segment: Segment, block: Block, since: int) -> int:
        """One block of this one and its neighbours of the same state."""
        block.since = since
        k = segment.blocks.index(block)
        if k + 1 < len(segment.blocks) and segment.blocks[k + 1].state == block.state:
            block.size += segment.blocks.pop(k + 1).size
        if k > 0 and segment.blocks[k - 1].state == block.state:
            before = segment.blocks.pop(k - 1)
            block.address, block.size = before.address, block.size + before.size
        return block.address

    def free(self, address: int) -> None:
        for segment in self.segments:
            for block in segment.blocks:
                if block.address == address and block.state == "used":
                    block.state = "free"
                    self.join(segment, block, self.searches[segment.small])
                    return
        raise KeyError(address)

    def whole(self, stream: int | None, small: bool) -> list[Segment]:
        """Cached segments that do not expand, as torch goes through them."""
        found = [
            s
            for s in self.segments
            if not s.expandable and s.small == small and stream in (None, s.stream)
            if len(s.blocks) == 1 and s.blocks[0].state == "free"
        ]
        return sorted(found, key=lambda s: (s.stream, s.blocks[0].size, self.rank(s, s.blocks[0]), s.begin))

    def release_oversize(self, size: int, stream: int, small: bool) -> bool:
        if self.split == float("inf"):
            return False
        wanted = max(size, self.split)
        cached = self.whole(stream, small)
        enough = [s for s in cached if s.blocks[0].size >= wanted]
        if enough:
            self.segments.remove(enough[0])
            return True
        released = 0
        for segment in reversed(cached):
            if released >= wanted or segment.blocks[0].size < self.split:
                break
            released += segment.blocks[0].size
            self.segments.remove(segment)
        return released >= wanted

    def empty(self) -> None:
        for small in (False, True):
            for segment in self.whole(None, small):
                self.segments.remove(segment)
            cached = [
                (s.stream, b.size, self.rank(s, b), b.address, s, b)
                for s in self.segments
                if s.expandable and s.small == small
                for b in s.blocks
                if b.state == "free"
            ]
            for *_, segment, block in sorted(cached, key=lambda row: row[:4]):
                page = 2 * MIB if small else self.large
                begin = segment.begin + -(-(block.address - segment.begin) // page) * page
                end = segment.begin + (block.address + block.size - segment.begin) // page * page
                if begin >= end:
                    continue
                since = self.searches[small]
                pieces = [Block(begin, end - begin, "unmapped", made=block.made)]
                if begin > block.address:
                    before = Block(block.address, begin - block.address, "free", since, next(self.numbers))
                    pieces.insert(0, before)
                if end < block.address + block.size:
                    rest = block.address + block.size - end
                    pieces.append(Block(end, rest, "free", since, next(self.numbers)))
                k = segment.blocks.index(block)
                segment.blocks[k : k + 1] = pieces
                self.join(segment, next(p for p in pieces if p.state == "unmapped"), 0)
                if len(segment.blocks) == 1 and segment.blocks[0].state == "unmapped":
                    self.segments.remove(segment)

    def collect(self) -> None:
        threshold = int(self.garbage * self.limit)
        if self.reserved <= threshold:
            return
        target, reclaimed = self.reserved - threshold, 0

        def age(segment: Segment) -> int:
            return self.searches[False] - segment.blocks[0].since

        while reclaimed < target and (cached := self.whole(None, False)):
            old = sum(map(age, cached)) / len(cached)
            gone, ages, count = False, sum(map(age, cached)), len(cached)
            for segment in cached:
                if age(segment) >= old:
                    gone = True
                    ages, count = ages - age(segment), count - 1
                    reclaimed += segment.blocks[0].size
                    self.segments.remove(segment)
            if not gone:
                break
