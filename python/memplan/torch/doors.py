"""The doors of torch's wing: what each imports, and a small example of each, for `memplan doctor`."""

from __future__ import annotations

import copy
import importlib
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..frontend import Door
from .installed import names_of_torch, require_tested, require_torch

_PATCHING = ("compiling.compiling", "inductor.compiled")  # rooms that change torch itself


def _imports(door: str, *rooms: str) -> None:
    require_torch(door)
    if set(rooms) & {*_PATCHING}:
        require_tested(door)
    with names_of_torch(door):
        for room in rooms:
            importlib.import_module(f"memplan.torch.{room}")


def _door(name: str, example: Callable[[], None], *rooms: str) -> Door:
    needs = partial(_imports, name, *rooms)

    def through() -> None:
        needs()
        example()

    return Door(name, needs, through)


def _net() -> Any:
    from torch import nn

    parts = [[layer for _ in range(3) for layer in (nn.Linear(16, 16), nn.Tanh())] for _ in range(4)]
    return nn.Sequential(*(nn.Sequential(*part) for part in parts))


def _input() -> Any:
    import torch

    return torch.linspace(-1, 1, 256 * 16).reshape(256, 16)


def _plan(source: Any, **options: Any) -> Any:
    from ..solving.planning import plan

    return plan(source, args=(_input(),), alignment=64, **options)


def _same(found: Any, expected: Any) -> None:
    import torch

    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def _trained(change: Callable[[Any, Any, Callable[[], None]], Callable[[], None] | None]) -> None:
    """Train with a change, and as many steps without: the weights must be equal bit for bit.

    The change takes the net, its optimizer and its step, and may return another step.
    """
    import torch

    def training(net: Any) -> tuple[Any, Callable[[], None]]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

        def step() -> None:
            counted.append(1)
            optimizer.zero_grad()
            net(_input()).square().mean().backward()
            optimizer.step()

        return optimizer, step

    net, counted = _net(), list[int]()
    usual = copy.deepcopy(net)
    optimizer, step = training(net)
    changed = change(net, optimizer, step) or step
    for _ in range(4):
        changed()
    _, step = training(usual)
    for _ in [*counted]:
        step()
    _same([*net.parameters()], [*usual.parameters()])


def _module() -> None:
    assert _plan(_net(), train=True).optimal


def _file() -> None:
    import torch

    from ..solving.planning import plan

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.pt2"
        torch.export.save(torch.export.export(_net(), (_input(),)), path)
        assert plan(path, alignment=64).optimal


def _snapshot() -> None:
    from .snapshot import read_snapshot

    event = {"addr": 1024, "size": 512, "stream": 0, "frames": []}
    events = [{"action": action, **event} for action in ("alloc", "free_requested", "free_completed")]
    assert read_snapshot({"segments": [], "device_traces": [events]}).problem().size.tolist() == [512]


def _what_if() -> None:
    from .snapshot.what_if import what_if

    size = 20 * 2**20
    events = [{"action": action, "addr": 2**30, "size": size, "stream": 0} for action in ("segment_alloc", "alloc")]
    block = {"address": 2**30, "size": size, "state": "active_allocated"}
    segment = {"address": 2**30, "total_size": size, "stream": 0, "segment_type": "large", "blocks": [block]}
    found = what_if({"segments": [segment], "device_traces": [events]})
    assert found.replay.equal_addresses == 1
    assert found.rows[0].reserved == size


def _recording() -> None:
    import torch

    from .snapshot.recording import recording

    with tempfile.TemporaryDirectory() as folder:
        try:
            with recording(Path(folder) / "oom.pickle"):
                pass
        except RuntimeError:  # as it says where torch finds no GPU
            assert not torch.cuda.is_available()


def _run() -> None:
    net = _net()
    _same([_plan(net).run(_input(), check=True).outputs], [net(_input())])


def _program() -> None:
    net = _net()
    found = _plan(net).program(_input())
    _same([found], [net(_input())])


def _estimate() -> None:
    from .estimating import estimate

    assert estimate(_net(), (_input(),), {}, train=True, optimizer="SGD", autocast=None, device="cpu").total > 0


def _record() -> None:
    from ..solving.planning import plan
    from .training.replaying import arena
    from .training.step_recording import record

    def change(_: Any, __: Any, step: Callable[[], None]) -> Callable[[], None]:
        step()
        with record() as tape:
            step()
        serving = arena(plan(tape))

        def served() -> None:
            with serving:
                step()

        return served

    _trained(change)


def _planned() -> None:
    from .training.planned import planned

    _trained(lambda net, optimizer, step: planned(step, quiet=True))


def _fitted(way: str, budget: str) -> None:
    fitting = importlib.import_module("memplan.torch.training.fitting")

    def change(net: Any, _: Any, __: Any) -> None:
        getattr(fitting, way)(net, budget, args=(_input(),), optimizer="SGD")

    _trained(change)


def _updates() -> None:
    from .training.updating import update_as_you_go

    def change(_: Any, optimizer: Any, __: Any) -> None:
        update_as_you_go(optimizer)

    _trained(change)


def _compiled() -> None:
    import torch

    net = _net()
    with torch.no_grad():
        compiled: list[Any] = [torch.compile(net, backend=backend) for backend in ("memplan", "inductor")]
        found, expected = (call(_input()) for call in compiled)
    _same([found], [expected])


def _captured() -> None:
    from .inductor.capture import capture_inductor

    assert capture_inductor(_net(), args=(_input(),))


DOORS = (
    _door("plan(module)", _module, "reading.module"),
    _door("plan('net.pt2')", _file, "reading.archive", "reading.vetting", "reading.graph"),
    _door("plan(snapshot)", _snapshot, "snapshot"),
    _door("what_if", _what_if, "snapshot.what_if"),
    _door("recording", _recording, "snapshot.recording"),
    _door("plan.run", _run, "running.program", "running.module_state"),
    _door("plan.program", _program, "running.program", "running.graph_module"),
    _door("estimate", _estimate, "reading.dry_run"),
    _door("record, arena", _record, "training.step_recording", "training.replaying", "training.library"),
    _door("planned", _planned, "training.planned", "training.library", "training.holding"),
    *(
        _door(way, partial(_fitted, way, budget), "training.fitting")
        for way, budget in (("fit", "80%"), ("checkpoint", "80%"), ("offload", "80%"))
    ),
    _door("update_as_you_go", _updates, "training.updating"),
    _door('torch.compile(backend="memplan")', _compiled, "compiling.compiling"),
    _door("capture_inductor", _captured, "inductor.compiled"),
)
