"""What was compiled inside plans: compiled code says so when it is loaded, from torch's caches too."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ... import _core, sizes
from ...explaining.explanation import Explanation
from ...explaining.held import Held, Whole
from ...plans.plan import Plan
from . import given, trimming

_CURES = {
    "saved for backward": 'options={"budget": "60%"} of the backend',
    "returned by forward": "if the caller keeps no result while backward runs",
}
_NAMED = 4  # tensors
_MOST = 1000  # graphs that are remembered: the last ones


@dataclass(frozen=True)
class CompiledPlan:
    """An arena of a graph that was compiled with ``torch.compile(f, backend="memplan")``.

    Bytes are those of one call. These are counted: buffers of the wrapper, results that kernels allocate themselves,
    donated inputs from the step at which a buffer takes over their bytes, and in backward what forward has left: what
    it has saved, as long as backward holds it, and its results. What kernels of torch allocate and free again is
    counted on the CPU, if no size is symbolic.

    Attributes
    ----------
    name : str
        "inference 0", "forward 1", "backward 1": what the graph is, and torch's number for it.
    device : str
        Where the arena lies: "cpu", "cuda:0".
    plan : Plan
        The arena. Its buffers have Inductor's names; a step is the code of the wrapper between two runs of lines about
        memory.
    planned : int
        The most bytes that the graph holds on the device at one step: in all its arenas, and outside of them.
    default : int
        The same for torch's default, which frees buffers as it goes and keeps some for later ones of the same size, and
        holds to the end what backward is given and no kernel reads.
    load : int
        The same if each buffer was held exactly as long as it is needed. No planner holds less.
    outside : int
        Buffers of the wrapper that no arena of the graph holds: those that the graph returns, and the like.
    scale : str
        What all sizes and offsets of the plan are multiplied with: "1", or an expression of symbolic sizes, "s0". The
        figures above are for the sizes with which the graph was compiled.
    held : Held
        What `explain` explains.
    arena, arenas : int
        Which of the arenas of its graph it is, from 0 on, and how many the graph has.
    """

    name: str
    device: str
    plan: Plan
    planned: int
    default: int
    load: int
    outside: int
    scale: str = "1"
    held: Held | None = field(default=None, repr=False, compare=False)
    arena: int = 0
    arenas: int = 1

    def explain(self) -> Explanation:
        """All that the graph holds on the device, in arenas and outside of them, and what would bring less.

        Several arenas of a graph on a device have one explanation. Loads of advice are the best that can be: it is not
        known when a buffer is used between its first step and its last.
        """
        assert self.held is not None
        return self.held.explain()

    def __repr__(self) -> str:
        which = f", arena {self.arena + 1} of {self.arenas}" if self.arenas > 1 else ""
        return f"<memplan.torch.CompiledPlan: {self.name!r} on {self.device}{which}, {self.plan!r}>"


@dataclass(frozen=True)
class Loaded:
    """What compiled code says of itself: figures of its graph by device, and of each arena the columns of its plan.

    A forward graph also says what it leaves to backward: the blocks that hold its outputs (`left_by`). A graph with
    arenas says what it holds by device (`holding`).
    """

    name: str
    figures: dict[str, dict[str, int]]
    arenas: list[dict[str, Any]]
    left: list[dict[str, Any]] = field(default_factory=list)
    held: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def planned(self) -> list[int]:
        """The most bytes that the graph holds on each device."""
        return [figures["planned"] for figures in self.figures.values()]

    def contents(self) -> str:
        """All that it says but its number, as text."""
        return replace(self, name=self.name.split()[0]).to_text()

    def to_text(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))


_loaded: deque[Loaded] = deque(maxlen=_MOST)
_times = 0
_lock = threading.Lock()


def loaded(text: str) -> None:
    """Remember what compiled code says of itself. Wrapper code calls this when it is loaded."""
    global _times
    with _lock:
        _loaded.append(Loaded(**json.loads(text)))
        _times += 1
    trimming.loaded()


def times_loaded() -> int:
    """How often code was loaded so far."""
    return _times


def loaded_since(times: int) -> list[Loaded]:
    """What was loaded after so many times."""
    with _lock:
        return list(_loaded)[max(0, len(_loaded) - (_times - times)) :]


def worst_of(graphs: Sequence[Loaded]) -> str:
    """The worst moment of some graphs, and the largest tensors there, in words; "" if nobody knows."""
    each = [(graph.figures[device]["planned"], device, graph) for graph in graphs for device in graph.held]
    if not each:
        return ""
    _, device, graph = max(each, key=lambda one: one[0])
    found = _held(graph.name, **graph.held[device]).explain()
    op = f", at {found.peak_step.op}" if found.peak_step and found.peak_step.op else ""
    largest = [f"{sizes.format_bytes(a.bytes)} {a.why}{f' ({a.op})' if a.op else ''}" for a in found.alive[:_NAMED]]
    return f"{graph.name}{op}: {', '.join(largest)}"


def forget_since(times: int) -> None:
    """Forget what was loaded after so many times: it is not run."""
    global _times
    with _lock:
        for _ in range(min(_times - times, len(_loaded))):
            _loaded.pop()
        _times = times


def compiled_plans() -> list[CompiledPlan]:
    """The plans of what ``torch.compile(f, backend="memplan")`` has compiled in this process, or found in its caches.

    In the order in which the code was loaded first: one per arena, of which a graph may have several. Graphs that are
    alike, as those of equal layers that are compiled one by one, are listed once. A backward is compiled when it first
    runs, unless torch has it in a cache. The last 1,000 graphs are remembered. A graph for which memplan placed
    nothing, or which holds less as torch compiles it, is not listed.

    If torch.compile has given no graph to the backend, because Dynamo can compile nothing of a model, the logger
    ``memplan.torch`` says why.
    """
    with _lock:
        graphs = {graph.contents(): graph for graph in reversed(_loaded)}  # torch may load code more than once
    given.say_if_none()
    return [_plan_of(graph, number) for graph in reversed(graphs.values()) for number in range(len(graph.arenas))]


def clear_compiled_plans() -> None:
    """Forget the plans listed so far. Code that torch compiles, or finds in a cache, is listed from then on."""
    with _lock:
        _loaded.clear()


def columns(plan: Plan, device: str, scale: str) -> dict[str, Any]:
    """An arena as plain numbers and text."""
    problem = plan.problem
    return {
        "device": device,
        "scale": scale,
        "names": list(problem.names),
        **{name: getattr(problem, name).tolist() for name in ("size", "first", "last", "alignment")},
        "offsets": plan.offsets.tolist(),
        **{name: getattr(plan, name) for name in ("peak", "lower_bound", "optimal", "planner", "winner", "pools")},
    }


def _plan_of(graph: Loaded, number: int) -> CompiledPlan:
    arena = graph.arenas[number]
    lives = arena["size"], arena["first"], arena["last"]
    problem = _core.Problem(*lives, alignment=arena["alignment"], names=arena["names"])
    offsets = np.array(arena["offsets"], np.int64)
    offsets.flags.writeable = False
    facts = {name: arena[name] for name in ("peak", "lower_bound", "optimal", "planner", "winner", "pools")}
    plan = Plan(problem=problem, offsets=offsets, seconds=0.0, **facts)
    device = arena["device"]
    held = _held(f"{graph.name} on {device}", **graph.held[device])
    which = {"arena": number, "arenas": len(graph.arenas)}
    return CompiledPlan(graph.name, device, plan, **graph.figures[device], scale=arena["scale"], held=held, **which)


def _held(
    what: str,
    size: list[int],
    first: list[int],
    last: list[int],
    names: list[str],
    arenas: list[list[int]],
    **facts: Any,
) -> Held:
    problem = _core.Problem(size, first, last, names=names)
    return Held(what, problem, arenas=[Whole(*arena) for arena in arenas], cures=_CURES, **facts)
