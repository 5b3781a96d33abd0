"""Plans that are run: every network and door, poisoned, beside eager; and whether plans that are wrong are found out.

Run: ``python tests/benchmarks/run_check.py [--networks gpt2,norms] [--plans 2] [--corrupted 8] [--json F] [--docs]``.

A plan runs with `check=True`, on several inputs, and its results are held against those of the network in eager, bit
for bit. Per network and door there are plans by `auto`, by `first_fit`, and by chance, with sharing by choice on and
off, with inputs and weights in the arena, without outputs, and with the ops in other legal orders. Then single
lifetimes are shortened by one step: what reads the buffer last reads garbage, and the results have to differ.

Some networks run other ops when they see that they are traced. Then results equal eager's up to rounding, and are held
bit for bit against those of the same ops in a plan in which nothing shares bytes.
"""

from __future__ import annotations

import copy
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from reporting import Rows, arguments, report
from torch import Tensor, nn

import memplan
from memplan.running.plans import program_of
from memplan.torch.reading.fake import map_tensors, tensors_in

sys.path.insert(0, str(Path(__file__).parents[1]))
from builders import models
from builders.running import random_plan, shortened

SECTION = "run check"
HEAD = ("network", "doors", "plans", "runs", "wrong", "up to rounding", "lives shortened", "found")
OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("auto", {}),
    ("first_fit", {}),
    ("by chance", {}),
    ("first_fit", {"inplace": False, "zero_copy": False}),
    ("by chance", {"inplace": False}),
    ("first_fit", {"place": ["input", "weight", "intermediate", "output", "workspace"]}),
    ("by chance", {"place": ["intermediate"]}),
)


class Case(NamedTuple):
    """A source, how it is called, and what it has to give."""

    source: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    train: bool
    eager: Callable[..., Any]  # from args and kwargs to the results, by the twin
    twin: nn.Module  # a copy of the network
    weights: frozenset[str] = frozenset()  # names of parameters


@dataclass
class Tally:
    """What came of one network through one door."""

    network: str
    door: str
    ops: int = 0
    copied: int = 0
    plans: int = 0
    runs: int = 0
    wrong: list[str] = field(default_factory=list)
    rounded: int = 0  # runs that equal eager up to rounding, and bit for bit what the same ops give apart
    shortened: int = 0
    found: int = 0
    without_effect: list[str] = field(default_factory=list)


# Networks


class Dense(nn.Module):
    """Densely connected: every layer reads the concatenation of all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3 + 4 * k, 4, 3, padding=1) for k in range(5))
        self.norm = nn.BatchNorm2d(23)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x).relu_()], 1)
        return self.norm(x)  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """A recurrent layer, an embedding and dropout, in train mode."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embed, self.layers, self.drop = nn.Embedding(50, 16), kind(16, 24, 2, batch_first=True), nn.Dropout(0.2)
        self.out = nn.Linear(24, 50)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.drop(self.layers(self.embed(tokens))[0]))  # type: ignore[no-any-return]


class Mutating(nn.Module):
    """Caches that are written through views, in place and by index."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 8, 16))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.fc = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)
        self.cache[:, 2:5].copy_(y[:, :3])
        self.cache.index_put_((torch.tensor([1, 3]),), y[:2] * 2)
        self.steps += 1
        z = (self.cache.transpose(1, 2) @ y).softmax(-1)
        z[:, ::2].mul_(0.5).add_(1)
        return torch.stack([z, z * self.steps], 1).view(4, -1)


class Complex(nn.Module):
    """A spectrum and back, dtypes of every width, comparisons and masks."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        spectrum = torch.fft.rfft(x)
        power = (spectrum * spectrum.conj()).real
        mask = power > power.mean()
        kept = torch.where(mask, spectrum, spectrum * 0.5)
        y = torch.fft.irfft(kept.resolve_conj(), n=x.shape[-1])
        return y.half() + 1, mask & ~mask.flip(0), power.double().cumsum(-1), (y * 10).to(torch.int8)


def own(
    module: nn.Module, *args: Tensor, train: bool = False
) -> Callable[[], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]:
    return lambda: (module.train(train), args, {})


def of_transformers(name: str, labels: bool) -> Callable[[], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]:
    def make() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
        torch.manual_seed(0)
        example = models.CATALOGUE[name]()
        return example.model, (), dict(example.inputs) if labels else models.inference_inputs(example)

    return make


def mixtral() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    from builders.experts import mixtral as make

    torch.manual_seed(0)
    return make(), (), {"input_ids": torch.randint(1, 97, (2, 16))}


def networks() -> dict[str, tuple[Callable[..., Any], Callable[..., Any]]]:
    """How each network is made, for inference and for training."""
    torch.manual_seed(0)
    image, tokens, cached, wave = (
        torch.randn(2, 3, 8, 8),
        torch.randint(0, 50, (3, 7)),
        torch.randn(4, 8, 16),
        torch.randn(4, 32),
    )
    made: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        name: (of_transformers(name, False), of_transformers(name, True)) for name in models.CATALOGUE
    }
    made["mixtral"] = (mixtral, mixtral)
    made["dense"] = (own(Dense(), image), own(Dense(), image, train=True))
    for kind in (nn.GRU, nn.LSTM):
        layers = Recurrent(kind)
        made[kind.__name__.lower()] = (own(layers, tokens), own(Recurrent(kind), tokens, train=True))
    made["mutating"] = (own(Mutating(), cached), None)  # no gradient reaches back through what it writes over
    made["complex"] = (own(Complex(), wave), own(Complex(), wave.clone().requires_grad_()))
    return made


# Doors


def cases(name: str) -> Iterator[tuple[str, Callable[[], Case]]]:
    """The doors that a network is planned through."""
    infer, train = networks()[name]
    yield "module", lambda: module_case(*infer())
    if train is not None:
        yield "module, train", lambda: training_case(*train())
    yield "exported", lambda: program_case(*infer(), decomposed=False)
    yield "exported, aten", lambda: program_case(*infer(), decomposed=True)
    yield "fx of the program", lambda: graph_case(*infer())
    if train is not None:
        yield "program, train", lambda: training_case(*train(), program=True)


def module_case(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Case:
    twin = copy.deepcopy(module)
    return Case(module, args, kwargs, False, twin, twin)


def training_case(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], program: bool = False) -> Case:
    twin = copy.deepcopy(module)
    source: Any = module
    if program:
        source = exported(module, args, kwargs)
        twin = copy.deepcopy(source).module()

    def eager(*args: Any, **kwargs: Any) -> list[Tensor]:
        inputs = [t for _, t in tensors_in([args, kwargs]) if t.requires_grad]
        twin.zero_grad()
        with torch.enable_grad():
            loss = loss_of(twin(*args, **kwargs))
            loss.backward()  # type: ignore[no-untyped-call]
        gradients = {name: p.grad for name, p in twin.named_parameters()}
        return [loss.detach(), *ordered(gradients), *(t.grad for t in inputs if t.grad is not None)]

    return Case(source, args, kwargs, True, eager, twin, frozenset(name for name, _ in twin.named_parameters()))


def exported(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.export.ExportedProgram:
    for part in module.modules():
        if hasattr(part, "config"):
            part.config.use_cache = False  # torch does not know the caches of transformers as results
    return torch.export.export(module, args, kwargs)


def ordered(gradients: Mapping[str, Tensor | None]) -> list[Tensor]:
    return [gradient for _, gradient in sorted(gradients.items()) if gradient is not None]


def loss_of(result: Any) -> Tensor:
    from memplan.torch.reading.module import loss_of as found

    return found("the network", result)


def program_case(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], decomposed: bool) -> Case:
    program = exported(module, args, kwargs)
    program = program.run_decompositions({}) if decomposed else program
    twin = copy.deepcopy(program).module()
    return Case(program, args, kwargs, False, twin, twin)


def graph_case(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Case:
    graph = exported(module, args, kwargs).module()
    twin = copy.deepcopy(graph)
    return Case(graph, args, kwargs, False, twin, twin)


# Plans


def planned(graph: memplan.Graph, planner: str, options: dict[str, Any], seed: int) -> memplan.Plan:
    if planner != "by chance":
        return memplan.plan(graph, planner, alignment=64, seed=seed, **options)
    return random_plan(memplan.plan(graph, "first_fit", alignment=64, **options), seed)


def reordered(graph: memplan.Graph, seed: int) -> memplan.Graph:
    """The graph with its ops in another legal order: after what they read, what they have to wait for, and what
    mutates the bytes that they see."""
    rng, spec = random.Random(seed), graph.to_dict()
    maker = {name: op["name"] for op in spec["ops"] for name in op["outputs"]}
    waits = {
        op["name"]: {maker[n] for n in op["inputs"] if n in maker} | set(op.get("after", ())) for op in spec["ops"]
    }
    left, done, order = {op["name"]: op for op in spec["ops"]}, set(), []
    while left:
        name = rng.choice([name for name in left if waits[name] <= done])
        order.append(left.pop(name))
        done.add(name)
    found = memplan.capture(spec | {"ops": order}).graph
    assert isinstance(found, memplan.Graph)
    return found


# Runs


def same(a: Any, b: Any) -> bool:
    """Whether two nests hold the same tensors bit for bit, whatever the bits of NaN."""
    left, right = ([t for _, t in tensors_in(value)] for value in (a, b))
    return len(left) == len(right) and all(
        x.shape == y.shape and x.dtype == y.dtype and bool(((x == y) | ((x != x) & (y != y))).all())
        for x, y in zip(left, right, strict=True)
    )


def close(a: Any, b: Any) -> bool:
    """Whether two nests hold the same tensors up to rounding."""
    left, right = ([t for _, t in tensors_in(value)] for value in (a, b))
    return len(left) == len(right) and all(
        x.shape == y.shape and x.dtype == y.dtype and torch.allclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True)
        for x, y in zip(left, right, strict=True)
    )


def shaken(value: Any, seed: int) -> Any:
    """A copy of a nest with other floating numbers in it, and integers in another order."""
    torch.manual_seed(seed)

    def other(tensor: Tensor, path: str) -> Tensor:
        if seed == 0 or tensor.numel() < 2:
            return tensor.detach().clone().requires_grad_(tensor.requires_grad)
        if tensor.is_floating_point():
            return torch.randn_like(tensor).requires_grad_(tensor.requires_grad)
        return tensor.flatten()[torch.randperm(tensor.numel())].view_as(tensor)

    return map_tensors(value, other, "")


def results(run: Any, case: Case) -> Any:
    if not case.train:
        return run.outputs
    weights = case.weights
    held = state_of(case.source).keys()  # a weight that is tied has several names
    of_inputs = [gradient for name, gradient in run.gradients.items() if name not in weights | held]
    return [run.loss, *ordered({name: g for name, g in run.gradients.items() if name in weights}), *of_inputs]


class Trial:
    """One network through one door: the plans that are made of it, and their runs."""

    def __init__(self, network: str, door: str, case: Case, options: Any) -> None:
        self.case, self.options = case, options
        self.tally = Tally(network, door)
        self.named = {"args": case.args, "kwargs": case.kwargs, "train": case.train}
        self.state = copy.deepcopy(state_of(case.source))

    def run(self) -> Tally:
        plan = memplan.plan(self.case.source, "first_fit", alignment=64, **self.named)
        self.program = program_of(plan)
        assert plan.graph is not None
        self.apart = self.program.bind(memplan.plan(plan.graph, "naive", inplace=False, zero_copy=False, alignment=64))
        for seed in range(self.options.plans):
            for planner, options in OPTIONS:
                self.hold(planned(plan.graph, planner, options, seed), f"{planner} {options}", seed)
            other = memplan.plan(reordered(plan.graph, seed), "first_fit", alignment=64)
            self.hold(other, "another order", seed)
        self.corrupt(plan)
        return self.tally

    def hold(self, plan: memplan.Plan, how: str, seed: int) -> None:
        """Run a plan on two inputs, and hold it against eager."""
        self.tally.plans += 1
        bound = self.program.bind(plan)
        for number in (0, seed + 1):
            self.tally.runs += 1
            mine, eager = self.inside(bound, number), self.eager(number)
            if same(mine, eager):
                continue
            if close(mine, eager) and same(mine, self.inside(self.apart, number, check=False)):
                self.tally.rounded += 1
            else:
                self.tally.wrong.append(f"{how}, inputs {number}")

    def inside(self, bound: Any, number: int, check: bool = True) -> Any:
        """What a plan gives, and what it does to the network."""
        args, kwargs = self.begin(number)
        run = bound.run(args, kwargs, check=check)
        self.tally.ops, self.tally.copied = run.ops, run.copied
        return [results(run, self.case), self.changed(self.case.source)]

    def eager(self, number: int) -> Any:
        """What eager gives, and what it does to its copy of the network."""
        args, kwargs = self.begin(number)
        with torch.no_grad():
            result = self.case.eager(*args, **kwargs)
        return [result, self.changed(self.case.twin)]

    def begin(self, number: int) -> tuple[Any, Any]:
        """The same inputs, state and random numbers each time."""
        args, kwargs = shaken((self.case.args, dict(self.case.kwargs)), number)
        self.restore()
        torch.manual_seed(1)
        return args, kwargs

    def changed(self, held: Any) -> list[Tensor]:
        return [tensor.detach().clone() for name, tensor in state_of(held).items() if name in self.state]

    def restore(self) -> None:
        for held in (self.case.source, self.case.twin):
            with torch.no_grad():
                for name, tensor in state_of(held).items():
                    if name in self.state:
                        tensor.copy_(self.state[name])

    def corrupt(self, plan: memplan.Plan) -> None:
        """Shorten one lifetime after another by a step."""
        rng = random.Random(0)
        lives = [k for k in range(len(plan)) if plan.problem.last[k] - plan.problem.first[k] > 1]
        returned = {plan.buffer_of(name) for name in plan.graph.outputs} if plan.graph else set()
        lives = [k for k in lives if k not in returned]
        rng.shuffle(lives)
        expected = self.inside(self.apart, 0, check=False)
        for buffer in lives[: self.options.corrupted]:
            self.tally.shortened += 1
            try:
                wrong = not same(self.inside(self.program.bind(shortened(plan, buffer)), 0), expected)
            except (IndexError, RuntimeError):
                wrong = True
            self.tally.found += wrong
            if not wrong:
                self.tally.without_effect.append(plan.problem.name(buffer))


def state_of(held: Any) -> dict[str, Tensor]:
    if isinstance(held, torch.export.ExportedProgram):
        return dict(sorted(held.state_dict.items()))
    return dict(sorted(held.state_dict().items())) if isinstance(held, nn.Module) else {}


def counts(t: Tally) -> tuple[int, ...]:
    return t.plans, t.runs, len(t.wrong), t.rounded, t.shortened, t.found


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--networks", default="", help="names, separated by commas")
    parser.add_argument("--plans", type=int, default=2, help="seeds: plans by chance, orders and inputs")
    parser.add_argument("--corrupted", type=int, default=8, help="lifetimes that are shortened per door")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    tallies: list[Tally] = []
    for name in options.networks.split(",") if options.networks else networks():
        for door, make in cases(name):
            try:
                tallies.append(Trial(name, door, make(), options).run())
            except Exception as error:
                tallies.append(Tally(name, door, wrong=[f"{type(error).__name__}: {str(error)[:300]}"]))
            print(tallies[-1], flush=True)
    rows: Rows = [vars(tally) for tally in tallies]
    groups = {name: [t for t in tallies if t.network == name] for name in dict.fromkeys(t.network for t in tallies)}
    sums = {
        name: map(sum, zip(*map(counts, group), strict=True)) for name, group in (groups | {"all": tallies}).items()
    }
    cells = [[name, str(len(groups.get(name, tallies))), *map(str, found)] for name, found in sums.items()]
    report(SECTION, HEAD, cells, rows, options)
    return int(any(tally.wrong for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
