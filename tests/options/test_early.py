"""Options that no source takes are refused before a source is read, and what was meant is offered."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import memplan
from memplan import cli
from memplan.options import written


class Traced(torch.nn.Module):
    """Fails as soon as it is looked at."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pytest.fail("read before the options were looked at")


NET, ARGS = Traced(), (torch.zeros(2, 3),)
POOLS = [memplan.plans.Pool("sram", 1024), memplan.plans.Pool("dram")]


def sweep(net: Any, **options: Any) -> object:
    class Unread:
        """A source of a kind that there is not."""

    return memplan.sweep({"net": Unread()}, progress=False, **{k: v for k, v in options.items() if k != "args"})


SOURCES: dict[str, Callable[..., object]] = {
    "plan": memplan.plan,
    "compare": memplan.compare,
    "sweep": sweep,
    "plan_many": lambda net, args, **options: memplan.plan_many({"a": net}, each={"a": {"args": args}}, **options),
    "fit": lambda net, **options: memplan.fit(net, 100, **options),
    "pareto": memplan.pareto,
    "reorder": memplan.reorder,
    "order_bound": memplan.order_bound,
    "range": lambda net, **options: memplan.plan(net, dims={"b": (1, 8)}, **options),
}
PLANNER = {"planner": "gready_by_size"}, "did you mean 'greedy_by_size'?"
LIST = {"planners": ["auto", "gready_by_size"]}, "did you mean 'greedy_by_size'?"
PARAMETER = {"planner": "beam:width=3"}, "'beam' takes NAME=VALUE for k, got 'width=3'"
ORDER = {"order": "bets"}, "did you mean 'best'?"
CAPACITY = {"capacity": "2GG"}, "capacity must be .* did you mean '2GiB'?"
PLACE = {"place": ["inputs"]}, "did you mean 'input'?"
LIMIT = {"time_limit": 0}, "time_limit must be > 0 seconds, got 0"
NAMES = {"donate": "x"}, "donate must be a collection of names, got 'x'"
SWITCH = {"zero_copy": "no"}, "zero_copy must be True or False, got 'no'"
ALIGNMENT = {"alignment": 0}, "alignment must be >= 1"
ALL = [PLACE, NAMES, SWITCH]
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "plan": [PLANNER, PARAMETER, ORDER, CAPACITY, LIMIT, ALIGNMENT, ({"seed": -1}, "seed must"), *ALL],
    "compare": [LIST, CAPACITY, LIMIT, ALIGNMENT, ({"orders": ["bets"]}, "did you mean 'best'?"), *ALL],
    "sweep": [LIST, CAPACITY, LIMIT, ALIGNMENT, ({"orders": ["bets"]}, "did you mean 'best'?"), *ALL],
    "plan_many": [PLANNER, ORDER, CAPACITY, LIMIT, ({"alignmnet": 2}, "did you mean 'alignment'?"), *ALL],
    "fit": [
        PLANNER,
        LIMIT,
        ({"allow": ["recompte"]}, "did you mean 'recompute'?"),
        *ALL,
        ({"cost": "flop"}, "did you mean 'flops'?"),
        ({"transfer": 2}, "transfer and hidden need 'offload'"),
    ],
    "pareto": [
        PLANNER,
        LIMIT,
        ({"capacities": ["2GG"]}, "did you mean '2GiB'?"),
        ({"cost": "flop"}, "did you mean"),
        *ALL,
        ({"pools": POOLS, "pool": "srm"}, "did you mean 'sram'?"),
        ({"pools": POOLS, "order": "bets"}, "did you mean"),
    ],
    "reorder": [ORDER, LIMIT, ALIGNMENT, *ALL],
    "order_bound": [({"work": -1}, "work must be >= 0"), *ALL],
    "range": [PLANNER, ORDER, CAPACITY, ALIGNMENT, *ALL],
}


@pytest.mark.parametrize(
    ("door", "options", "says"),
    [pytest.param(door, *row, id=f"{door}-{next(iter(row[0]))}") for door, rows in REFUSED.items() for row in rows],
)
def test_what_no_source_takes_is_refused_unread(door: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says.replace("?", r"\?")):
        SOURCES[door](NET, args=ARGS, **options)


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("AUTO", ["auto", "naive"], "x must be one of auto, naive, got 'AUTO'; did you mean 'auto'?"),
        ("zzz", ["auto", "naive"], "x must be one of auto, naive, got 'zzz'"),
        (3, ["auto"], "x must be one of auto, got 3"),
    ],
)
def test_offers(name: Any, known: list[str], said: str) -> None:
    assert memplan.text.one_of("x", known, name) == said


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("plan --planner valey", "argument --planner: must be one of .*; did you mean 'valley'?"),
        ("explain --planner valey", "did you mean 'valley'?"),
        ("check --max 1 --planner valey", "did you mean 'valley'?"),
        ("fit --capacity 1 --planner valey", "did you mean 'valley'?"),
        ("compare --planners auto,valey", "did you mean 'valley'?"),
        ("compare --orders bets", "did you mean 'best'?"),
        ("plan --order bets", "did you mean 'best'?"),
        ("plan --place intermediates", "did you mean 'intermediate'?"),
        ("plan --capacity 2GG", "did you mean '2GiB'?"),
        ("plan --time-limit soon", "argument --time-limit: must be > 0 seconds, got 'soon'"),
        ("plan --threads 0", "argument --threads: must be >= 1 and at most 2147483647, got 0"),
        ("fit --capacity 2GG", "did you mean '2GiB'?"),
        ("fit --capacity 1 --allow recompte", "did you mean 'recompute'?"),
        ("largest --budget 60% --dim b", "it is not known here what this is a share of"),
        ("plan --dims b=2,s", "--dims takes NAME=N .* got 's'"),
        ("plan --dims b=2,b=3", "--dims has two sizes for 'b': 'b=3' came after another"),
        ("plan --dims b=2 --dims b=1:2", "--dims has two sizes for 'b'"),
        ("plan --values k", "--values takes NAME=V, such as k=5 or shape=2,3,4, got 'k'"),
        ("plan --values k=5,five", "--values takes numbers, true and false, .* got 'k=5,five'"),
        ("plan --values k=5 --values k=6", "--values has two values for 'k'"),
    ],
)
def test_commands_refuse_it_unread(
    command: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memplan.onnx.reading.import_onnx", lambda *_, **__: pytest.fail("read"))
    name, *options = command.split()
    try:
        status = cli.main([name, "net.onnx", *options])
    except SystemExit as end:
        status = int(end.code or 0)
    error = capsys.readouterr().err
    assert status == 2, error
    assert re.search(says.replace("?", r"\?"), error)
    assert error.count("\n") == 1


def test_sizes_between_commas(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert written.dims(["b=2,s=64", "t=1:4"]) == {"b": 2, "s": 64, "t": (1, 4)}


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".json", ".csv", ".pt2", ".pickle"])
def test_a_file_that_is_not_there_is_said_to_be_so(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a package is asked for that would read it."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        memplan.plan(f"nowhere{suffix}")


def test_what_a_planner_needs_is_asked_for_before_a_source_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def ready() -> None:
        raise memplan.errors.MissingDependencyError("planner 'needy' needs nothing else")

    row = memplan.planning.PlannerInfo("needy", "", False, (), "", "", run=lambda *_: pytest.fail("run"), ready=ready)
    monkeypatch.setattr("memplan.planning.registry._registered", {"needy": row})
    with pytest.raises(memplan.errors.MissingDependencyError, match="needs nothing else"):
        memplan.plan("nowhere.onnx", "needy")
    with pytest.raises(TypeError, match="ready must be callable, got 4"):
        memplan.planning.PlannerInfo("needy", "", False, (), "", "", ready=4)  # type: ignore[arg-type]
