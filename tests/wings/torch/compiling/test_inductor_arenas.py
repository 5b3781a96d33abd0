"""Which buffers share an arena, against a trial of all cuts; and wrapper code, checked by its text alone."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders.strategies import BOUNDED
from memplan.torch.compiling.arenas import arenas_on, held
from memplan.torch.compiling.cuts import split
from memplan.torch.compiling.settings import Settings
from memplan.torch.inductor.wrapper import Block

numbers = itertools.count()


def block(size: int, first: int, last: int, escapes: bool = False) -> Block:
    return Block([f"{size}@{first} #{next(numbers)}"], size, first, last, "wrapper", escapes)


blocks = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 7), st.integers(1, 4)).map(lambda b: block(b[0], b[1], b[1] + b[2])),
    min_size=1,
    max_size=8,
)


def load(found: list[Block]) -> int:
    return held([], found)


def held_with(groups: list[list[Block]], placed: list[Block], others: list[Block]) -> int:
    """Step by step, if each group is in an arena of its load, and all else alone."""
    inside = {id(b) for group in groups for b in group}
    alone = [*others, *(b for b in placed if id(b) not in inside)]
    lives = [(load(g), min(b.first for b in g), max(b.last for b in g)) for g in groups]
    lives += [(b.bytes, b.first, b.last) for b in alone]
    return max(sum(size for size, first, last in lives if first <= t < last) for t in range(20))


def groups_of(placed: list[Block], cuts: tuple[int, ...]) -> list[list[Block]]:
    ends = [0, *cuts, 20]
    found = [[b for b in placed if low <= b.first and b.last <= high] for low, high in itertools.pairwise(ends)]
    return [group for group in found if group]


@given(placed=blocks, others=blocks)
@BOUNDED
def test_no_choice_of_cuts_holds_less(placed: list[Block], others: list[Block]) -> None:
    last = max(b.last for b in placed)
    chosen = itertools.chain.from_iterable(itertools.combinations(range(1, last), k) for k in range(last))
    trials = {cuts: held_with(groups_of(placed, cuts), placed, others) for cuts in chosen}
    found = split(placed, others, 100)
    assert held_with(found, placed, others) == min(trials.values())

    def cost(groups: list[list[Block]]) -> tuple[int, int]:
        several = [group for group in groups if len(group) > 1]
        return len(placed) - sum(map(len, several)), len(several)  # blocks alone, arenas

    assert all(len(group) > 1 for group in found)
    assert cost(found) == min(cost(groups_of(placed, c)) for c, peak in trials.items() if peak == min(trials.values()))


def test_few_cuts_are_those_that_the_fewest_bytes_live_across() -> None:
    placed = [block(4, t, t + 2) for t in (0, 1, 4, 5)]
    assert split(placed, [block(4, 3, 4)], 1) == [placed[:2], placed[2:]]


def test_one_arena_where_it_holds_no_more() -> None:
    placed = [block(64, 0, 2), block(64, 2, 4)]
    (arena,) = arenas_on("cpu", placed, [], Settings())
    assert (arena.bytes, arena.first, arena.last) == (64, 0, 4)


def test_several_where_one_would_hold_more() -> None:
    placed = [block(640, 0, 2), block(64, 1, 2), block(64, 2, 4), block(64, 3, 4)]
    others = [block(640, 2, 4)]
    assert [arena.bytes for arena in arenas_on("cpu", placed, others, Settings())] == [704, 128]
    assert [arena.bytes for arena in arenas_on("cpu", placed, others, Settings(split=False))] == [704]
    placed.append(block(64, 3, 5, escapes=True))
    assert len(arenas_on("cpu", placed, others, Settings())) == 1


@pytest.mark.parametrize(("device", "alignment"), [("cpu", 64), ("cuda:1", 512)])
def test_alignment_of_a_device(device: str, alignment: int) -> None:
    (arena,) = arenas_on(device, [block(4, 0, 2), block(4, 1, 2)], [], Settings())
    assert sorted(arena.plan.offsets.tolist()) == [0, alignment]
    assert arena.bytes == 2 * alignment


def test_planners_of_ones_own_are_told_apart_by_their_source(monkeypatch: pytest.MonkeyPatch) -> None:
    from memplan.planning import registry

    def low(problem: memplan.Problem, options: memplan.planning.Options) -> memplan.planning.Placement:
        return memplan.planning.Placement([0])

    def high(problem: memplan.Problem, options: memplan.planning.Options) -> memplan.planning.Placement:
        return memplan.planning.Placement([64])

    def key_with(run: Any) -> str:
        memplan.register(memplan.planning.PlannerInfo("mine", "mine", False, (), "", "", run=run))
        return Settings(planner="mine").key

    monkeypatch.setattr(registry, "_registered", {})
    assert key_with(low) == key_with(low) != key_with(high)
    without_source = eval("lambda problem, options: None")
    assert key_with(without_source) != key_with(without_source)
    assert Settings().key == Settings().key != Settings(planner="cp_sat").key


# The text of a wrapper

ARENA = re.compile(r"(arena\d+)_(\w+) = empty_strided_cpu\(\((\d+), \), \(1, \), torch\.(\w+)\)")
CUT = re.compile(r"(\w+) = reinterpret_tensor\((arena\d+)_(\w+), \((.*?)\), \((.*?)\), (\d+)\)$")
TAKEN = re.compile(r"(\w+) = (?:reinterpret_tensor\()?(\w+)\b.*; del (\w+)  # reuse")
FREED = re.compile(r"del (.*)$")
KERNEL = re.compile(r"^(_memplan_kernel\d+) = _memplan_served\((.*)\)$", re.MULTILINE)
OFFERED = re.compile(r"(\w+) = (_memplan_kernel\d+)\((.*)\)$")
UNPACKED = re.compile(r"(\w+) = (\w+\[\d+\])$")


class Text:
    """Walks the lines of `call`: what is cut from arenas lies inside them, and nothing there is cut twice at a time.

    What is offered to kernels lies inside them too, and where nothing is.
    """

    def __init__(self, code: str) -> None:
        body = re.search(r"def call\(.*?\n(.*?)\n\s+return \(", code, re.DOTALL)
        assert body
        self.size: dict[str, int] = {}  # of arenas
        self.alive: dict[str, tuple[str, int, int]] = {}  # buffers: arena, begin and end in bytes
        self.cuts = 0
        self.kernels = {name: ast.literal_eval(f"({given})") for name, given in KERNEL.findall(code)}
        for line in map(str.strip, body[1].splitlines()):
            self.read(line)

    def place(self, name: str, arena: str, begin: int, end: int) -> None:
        assert begin % 64 == 0
        assert end <= self.size[arena]
        for other, (home, low, high) in self.alive.items():
            assert home != arena or end <= low or high <= begin, f"{name} lies in {other}"
        self.alive[name] = arena, begin, end

    def read(self, line: str) -> None:
        import torch

        if found := ARENA.match(line):
            self.size[found[1]] = int(found[3]) * getattr(torch, found[4]).itemsize
        elif found := CUT.match(line):
            width = getattr(torch, found[3]).itemsize
            shape, stride = ([int(n) for n in found[k].replace(" ", "").split(",") if n] for k in (4, 5))
            begin = int(found[6]) * width
            end = begin + width * (1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)))
            self.place(found[1], found[2], begin, end)
            self.cuts += 1
        elif found := OFFERED.match(line):
            _, results, free = self.kernels[found[2]]
            arenas = [arena for arena, _ in re.findall(r"(arena\d+)_\w+, (1)\b", found[3])]
            inside = [("".join(f"[{k}]" for k in path), arenas[a], at, size) for path, a, at, size in results if a >= 0]
            scratch = [(f" scratch {at}", arenas[arena], at, size) for arena, at, size in free]
            for name, arena, begin, size in [*inside, *scratch]:
                self.place(name, arena, begin, begin + size)
            for name, *_ in [*inside, *scratch]:
                self.alive.pop(name)
            for path, arena, begin, size in inside:
                self.alive[found[1] + path] = arena, begin, begin + size
                self.cuts += 1
        elif (found := UNPACKED.match(line)) or (found := TAKEN.match(line)):
            if found[2] in self.alive:
                self.alive[found[1]] = self.alive.pop(found[2])
        elif found := FREED.match(line):
            for name in found[1].split(", "):
                self.alive.pop(name, None)


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[list[str]]:
    """The code of all wrappers; no kernel is compiled: where a graph would run, its operators do, one by one."""
    torch = pytest.importorskip("torch")
    from types import SimpleNamespace

    from torch._inductor.graph import GraphLowering

    from memplan.torch.inductor.compiled import _eagerly

    found: list[str] = []

    def compile_to_module(graph: Any) -> Any:
        code, _ = graph.codegen()
        found.append(code.value)
        return SimpleNamespace(call=_eagerly(graph.module), __file__=None)

    monkeypatch.setattr(GraphLowering, "compile_to_module", compile_to_module)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    with torch._inductor.config.patch({"force_disable_caches": True}):
        yield found
    torch._dynamo.reset()


def check(codes: list[str]) -> None:
    texts = [Text(code) for code in codes]
    assert sum(text.cuts for text in texts) > 0
    for code, text in zip(codes, texts, strict=True):
        said = re.findall(r"_memplan_loaded\('(.*)'\)", code)
        names = [name for line in said for arena in json.loads(line)["arenas"] for name in arena["names"]]
        assert text.cuts == sum(not name.endswith("scratch") for name in names)


def run(model: Any, inputs: dict[str, Any], train: bool, dynamic: bool = False, **options: Any) -> None:
    import torch

    with torch.set_grad_enabled(train):
        result = torch.compile(model, backend=memplan.torch.backend, dynamic=dynamic, options=options)(**inputs)
        if train:
            result[0].sum().backward()


@pytest.mark.few(1)
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("place", [["intermediate"], ["intermediate", "output"]], ids=["inner", "outputs"])
def test_the_text_of_dtypes_views_and_concatenations(train: bool, place: list[str], codes: list[str]) -> None:
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(24, 24) for _ in range(2)])

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            for layer in self.layers:
                y = layer(x)
                best = (y @ y.mT).softmax(-1).argmax(-1).cumsum(0)
                turned = torch.view_as_real(torch.view_as_complex(y.view(-1, 12, 2)) * 1j).flatten(1)
                x = torch.cat([turned[:, :12], (y > 0).double().float()[:, 12:]], -1) @ y.mT @ y + best[:, None]
            return x, best, x.mT

    torch.manual_seed(0)
    run(Net(), {"x": torch.randn(8, 24)}, train, place=place)
    check(codes)


def said(codes: list[str]) -> dict[str, Any]:
    """What forward and backward say of themselves."""
    found = [json.loads(line) for code in codes for line in re.findall(r"_memplan_loaded\('(.*)'\)", code)]
    return {graph["name"].split()[0]: graph for graph in found}


def test_backward_counts_what_forward_leaves(codes: list[str]) -> None:
    """A convolution copies what it is given into another layout, and saves the copy under the name of the input."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(8, 16, 4, stride=4), nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = self.conv(x).flatten(2).mT
            return self.head(y.sigmoid()).square(), y

    x = torch.randn(4, 8, 32, 32)
    run(Net(), {"x": x}, True)
    forward, backward = said(codes)["forward"], said(codes)["backward"]
    left = forward["left"]
    copies = [row for row in left if row["bytes"] == x.nbytes]
    assert [row["names"] for row in copies] == [[name] for row in copies for name in row["names"]]
    assert all(name.startswith("primals") for row in copies for name in row["names"])
    assert copies
    assert [row["seen"] for row in left].count(True) == 2
    assert backward["figures"]["cpu"]["planned"] >= sum(row["bytes"] for row in left)


@pytest.mark.slow
@pytest.mark.filterwarnings("error:.*is left to torch")
def test_forward_may_leave_numbers(codes: list[str]) -> None:
    """A convolution of symbolic sizes saves them."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(4, 8, 3)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (self.conv(x).sigmoid().flatten(1).softmax(-1),)

    run(Net(), {"x": torch.randn(4, 4, 8, 8)}, True, dynamic=True)
    assert said(codes)["forward"]["left"]


@pytest.mark.slow
@pytest.mark.filterwarnings("error:.*is left to torch")
def test_symbolic_sizes_that_are_rounded(codes: list[str]) -> None:
    """What pooling leaves has sizes of which nobody knows that they are positive."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.AvgPool2d(2), nn.Conv2d(8, 8, 3))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (self.layers(x).sigmoid().flatten(1).softmax(-1),)

    run(Net(), {"x": torch.randn(2, 3, 16, 16)}, True, dynamic=True)
    assert said(codes)["forward"]["arenas"]


def test_the_figures_of_a_graph_in_which_nothing_is_placed(codes: list[str]) -> None:
    import torch

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (x.sin(),)

    x = torch.randn(64, requires_grad=True)
    run(Net(), {"x": x}, True)
    for graph in said(codes).values():
        assert not graph["arenas"]
        assert graph["figures"]["cpu"]["planned"] >= x.nbytes


def test_an_input_is_held_while_the_last_kernel_that_reads_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from torch._inductor import ir
    from torch._inductor.codegen import wrapper

    from memplan.torch.inductor.lines import Ledger

    layout = ir.FixedLayout(torch.device("cpu"), torch.float32, [2], [1])
    free = {name: wrapper.FreeLine(None, ir.InputBuffer(name=name, layout=layout)) for name in "vwxyz"}
    memory, kernel = wrapper.MemoryPlanningLine(None), wrapper.CommentLine("kernel")
    monkeypatch.setattr(Ledger, "_bytes", lambda self, node: 8)
    lines = [kernel, free["w"], memory, kernel, free["x"], free["y"], kernel, memory, free["z"], kernel]
    for finer, last in ((False, [1, 2, 2, 2]), (True, [1, 3, 3, 4])):
        given = Ledger(lines, finer=finer).given
        assert [(block.name, block.last) for block in given] == list(zip("wxyz", last, strict=True))
    given = Ledger([free["v"], *lines], finer=True).given  # before the first kernel: a step of its own
    assert [(block.name, block.last) for block in given] == list(zip("vwxyz", [1, 2, 4, 4, 5], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", ["resnet", "convnext", "swin", "vit", "gpt2", "t5", "llama", "whisper"])
def test_the_text_of_networks(name: str, train: bool, codes: list[str]) -> None:
    from builders import models

    example = models.CATALOGUE[name]()
    inputs = dict(example.inputs) if train else models.inference_inputs(example)
    run(example.model.train(train), {**inputs, "return_dict": False}, train)
    check(codes)
