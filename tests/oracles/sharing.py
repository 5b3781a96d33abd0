"""The least peak of a small graph over every choice of sharing. Written apart: nothing here imports memplan.

Every subset of what ops say may share bytes is tried, every offset of every storage below a limit, and what is found is
run byte by byte, in every order in which the ops may run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import Any, NamedTuple

from oracles.plain import ARENA, GIVEN, NOWHERE, GraphDict, graph_outputs, legal_orders, replay, waits

ORDERS = 60  # looked at; a graph with more is refused
PLACEMENTS = 20_000  # tried for a choice of sharing, too


class Choice(NamedTuple):
    """`inside` lies in the bytes of `whole`, `offset` from where that begins; `how` is the ops' word for it."""

    how: str
    inside: str
    whole: str
    offset: int


def choices(graph: GraphDict, *relations: str) -> list[Choice]:
    """What the ops say of tensors that share bytes."""
    return [_choice(how, view) for op in graph["ops"] for how in relations for view in op.get(how, ())]


def _choice(how: str, view: Mapping[str, Any]) -> Choice:
    ends = (view["input"], view["output"]) if how == "concat" else (view["output"], view["input"])
    return Choice(how, *ends, view.get("offset", 0))


def least_peak(graph: GraphDict, place: Collection[str], donate: Collection[str]) -> int:
    """The least peak of all plans, whatever is shared.

    Raises
    ------
    ValueError
        The graph may run in too many orders, or be placed in too many ways.
    """
    orders = list(islice(legal_orders(waits(graph)), ORDERS + 1))
    if len(orders) > ORDERS:
        raise ValueError(f"more than {ORDERS} orders")
    may = choices(graph, "inplace", "slice", "concat")
    best = sum(t["bytes"] for t in graph["tensors"]) + sum(op.get("workspace", 0) for op in graph["ops"]) + 1
    for count in range(len(may) + 1):
        for subset in combinations(may, count):
            layout = _Layout.of(graph, subset, place, donate)
            if layout is not None and not layout.faults(layout.far_apart(), donate, orders[:1]):
                best = min(best, layout.least(donate, orders, best))
    return best


def _join(root: dict[str, tuple[str, int]], choice: Choice) -> bool:
    """Move all that lies with one tensor into the storage of another; False where they lie together already."""
    moved, host = root[choice.inside][0], root[choice.whole][0]
    by = root[choice.whole][1] + choice.offset - root[choice.inside][1]
    for name, (own, offset) in root.items():
        if own == moved:
            root[name] = (host, offset + by)
    return moved != host


class _Layout:
    """Storages, once it is decided what shares bytes."""

    def __init__(self, graph: GraphDict, root: dict[str, tuple[str, int]], place: Collection[str]) -> None:
        self.graph, self.root = graph, root
        self.size = {t["name"]: t["bytes"] for t in graph["tensors"]}
        kind = {t["name"]: t.get("kind", "intermediate") for t in graph["tensors"]}
        outputs = {root[name][0] for name in graph_outputs(graph)}
        kinds = {r: "output" if kind[r] == "intermediate" and r in outputs else kind[r] for r, _ in root.values()}
        self.placed = sorted({r for r in kinds if kinds[r] in place and self.size[r] > 0})
        self.outside = {r for r in kinds if kinds[r] not in place}
        scratch = [op["name"] for op in graph["ops"] if op.get("workspace", 0) > 0 and "workspace" in place]
        self.scratch = {name: k for k, op in enumerate(graph["ops"]) if (name := op["name"]) in scratch}
        self.items = [(r, self._cells(r), self.size[r]) for r in self.placed]
        self.items += [
            (f"{name}'s", {(b, k) for b in range(graph["ops"][k]["workspace"])}, graph["ops"][k]["workspace"])
            for name, k in self.scratch.items()
        ]
        self.items.sort(key=lambda item: -item[2])
        self.streams = len({op.get("stream", 0) for op in graph["ops"]}) > 1
        self.before = _all_before(graph)

    @staticmethod
    def of(
        graph: GraphDict, subset: Sequence[Choice], place: Collection[str], donate: Collection[str]
    ) -> _Layout | None:
        """None where a tensor would lie in two places, outside of what it lies in, or where only a copy may lie."""
        size = {t["name"]: t["bytes"] for t in graph["tensors"]}
        given = {t["name"] for t in graph["tensors"] if t.get("kind") in GIVEN}  # they lie where the caller put them
        root = {name: (name, 0) for name in size}
        for choice in choices(graph, "alias", "overwrite"):
            _join(root, choice)
        kept = {root[name][0] for name in graph_outputs(graph)}
        for choice in subset:
            moved, host = root[choice.inside][0], root[choice.whole][0]
            stays = host in given and (
                (choice.how == "inplace" and host not in donate) or (choice.how == "slice" and moved in kept)
            )
            if moved in given or stays or (choice.how != "concat" and moved != choice.inside):
                return None
            if not _join(root, choice) or root[moved][1] < 0 or root[moved][1] + size[moved] > size[host]:
                return None
        return _Layout(graph, root, place)

    def _cells(self, root: str) -> set[tuple[int, int]]:
        """The (byte, step) pairs that a storage uses: of its tensors while they live, by the order of the list."""
        outputs, end = graph_outputs(self.graph), max(len(self.graph["ops"]), 1)
        kind = {t["name"]: t.get("kind", "intermediate") for t in self.graph["tensors"]}
        cells = set()
        for name, (r, offset) in self.root.items():
            if r != root:
                continue
            steps = [k for k, op in enumerate(self.graph["ops"]) if name in (*op["inputs"], *op["outputs"])]
            steps += [0] if kind[name] in GIVEN else []
            steps += [end - 1] if kind[name] == "weight" or name in outputs else []
            cells |= set(product(range(offset, offset + self.size[name]), range(min(steps), max(steps) + 1)))
        if len({op.get("stream", 0) for op in self.graph["ops"]}) > 1:  # kept whole as long as any part of it lives
            lives = {step for _, step in cells}
            return set(product(range(self.size[root]), range(min(lives), max(lives) + 1)))
        return cells

    def far_apart(self) -> dict[str, int]:
        """Offsets at which nothing meets."""
        offsets, end = {}, 0
        for name, _, size in self.items:
            offsets[name], end = end, end + size
        return offsets

    def faults(self, offsets: dict[str, int], donate: Collection[str], orders: list[list[int]]) -> bool:
        """Whether anything is lost in any of the orders."""
        at = {name: offset + offsets.get(r, 0) for name, (r, offset) in self.root.items()}
        region = {name: r if r in self.outside else ARENA for name, (r, _) in self.root.items()}
        scratch = {op["name"]: offsets.get(f"{op['name']}'s", NOWHERE) for op in self.graph["ops"]}
        run = (self.graph, at, scratch)
        return any(replay(*run, region=region, donated=donate, sequence=order) for order in orders)

    def least(self, donate: Collection[str], orders: list[list[int]], below: int) -> int:
        """The least peak, where it is below a limit; else the limit."""
        peaks = sorted({0, *range(1, below)})
        low = self._load()
        for peak in peaks:
            if peak >= low and any(not self.faults(o, donate, orders) for o in self._within(peak)):
                return peak
        return below

    def _races(self, name: str, offset: int, size: int, offsets: dict[str, int]) -> bool:
        """Whether it shares bytes with another, and neither is done before the other is written."""
        sizes = {other: n for other, _, n in self.items}
        return any(
            max(offset, at) < min(offset + size, at + sizes[other])
            and not self._done_before(name, other)
            and not self._done_before(other, name)
            for other, at in offsets.items()
        )

    def _done_before(self, one: str, other: str) -> bool:
        return all(
            k in self.before[w] for w in self._ops(other, "outputs") for k in self._ops(one, "inputs", "outputs")
        )

    def _ops(self, name: str, *columns: str) -> list[int]:
        """The ops that read or write a storage; an op's own scratch is written by it."""
        inside = {member for member, (r, _) in self.root.items() if r == name}
        return [
            k
            for k, op in enumerate(self.graph["ops"])
            if f"{op['name']}'s" == name or any(inside & set(op[column]) for column in columns)
        ]

    def _load(self) -> int:
        steps = [step for _, cells, _ in self.items for _, step in cells]
        return max((steps.count(step) for step in set(steps)), default=0)

    def _within(self, peak: int) -> Iterator[dict[str, int]]:
        """Every way to place all below a peak such that, in the order of the list, no two use a byte at once."""

        tried = 0

        def extend(k: int, used: set[tuple[int, int]], offsets: dict[str, int]) -> Iterator[dict[str, int]]:
            nonlocal tried
            tried += 1
            if tried > PLACEMENTS:
                raise ValueError(f"more than {PLACEMENTS} placements")
            if k == len(self.items):
                yield dict(offsets)
                return
            name, cells, size = self.items[k]
            for offset in range(peak - size + 1):
                moved = {(byte + offset, step) for byte, step in cells}
                if not moved & used and not (self.streams and self._races(name, offset, size, offsets)):
                    yield from extend(k + 1, used | moved, {**offsets, name: offset})

        yield from extend(0, set(), {})


def _all_before(graph: GraphDict) -> list[set[int]]:
    """Per op, all that have ended when it begins, in every order."""
    before = waits(graph)
    for k in range(len(before)):  # ops are listed in a legal order
        before[k] = before[k].union(*(before[earlier] for earlier in before[k]))
    return before


def small_graph(random: Any, *, streams: bool, ops: int = 4, overwrites: float = 0) -> dict[str, Any]:
    """A random legal graph of a few small tensors, in which much may share bytes; some ops overwrite an input."""
    tensors: list[dict[str, Any]] = []
    lives: list[str] = []
    size: dict[str, int] = {}
    root: dict[str, str] = {}  # aliases of one root are gone when one of them is overwritten

    def add(name: str, n: int, kind: str = "intermediate") -> str:
        tensors.append({"name": name, "bytes": n, "kind": kind})
        lives.append(name)
        size[name] = n
        return name

    for i in range(random.randint(1, 2)):
        add(f"x{i}", random.randint(1, 4), random.choice(["input", "input", "weight"]))
    listed: list[dict[str, Any]] = []
    for k in range(random.randint(1, ops)):
        reads = sorted({random.choice(lives) for _ in range(random.randint(1, 3))})
        op: dict[str, Any] = {"name": f"o{k}", "inputs": reads, "outputs": []}
        if streams:
            op["stream"] = random.randint(0, 1)
        if random.random() < 0.15:
            op["workspace"] = random.randint(1, 3)
        if overwrites and random.random() < overwrites:
            source, name = random.choice(reads), f"t{k}"
            gone = root.get(source, source)
            lives[:] = [other for other in lives if root.get(other, other) != gone]
            add(name, size[source])
            root[name] = gone
            op.update(outputs=[name], overwrite=[{"output": name, "input": source}])
            listed.append(op)
            continue
        for w in range(random.choice([1, 1, 1, 2])):
            _add_output(random, op, f"t{k}{w}", size, add)
        root.update((v["output"], root.get(v["input"], v["input"])) for v in op.get("alias", ()))
        listed.append(op)
    outputs = [name for name in lives if random.random() < 0.25]
    return {"tensors": tensors, "ops": listed, "outputs": outputs}


def _add_output(random: Any, op: dict[str, Any], name: str, size: dict[str, int], add: Any) -> None:
    source = random.choice(op["inputs"])
    relation = random.choice(["alias", "slice", "slice", "concat", "concat", "inplace", "inplace", "inplace", ""])
    op["outputs"].append(name)
    if relation == "concat":
        end, parts = 0, []
        for part in op["inputs"]:
            end += random.choice([0, 0, 1])
            parts.append({"output": name, "input": part, "offset": end})
            end += size[part]
        add(name, end + random.choice([0, 0, 1]))
        op.setdefault("concat", []).extend(parts)
    elif relation in ("alias", "slice"):
        n = random.randint(1, size[source])
        add(name, n)
        view = {"output": name, "input": source, "offset": random.randint(0, size[source] - n)}
        op.setdefault(relation, []).append(view)
    else:
        add(name, random.choice([size[source], random.randint(1, 4)]))
        for over in op["inputs"] if relation else ():
            if size[name] <= size[over] and random.random() < 0.8:
                offset = random.randint(0, size[over] - size[name])
                op.setdefault("inplace", []).append({"output": name, "input": over, "offset": offset})
