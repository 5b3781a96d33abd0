"""Six networks trained within a share of their peak: what is really held, seconds per step, gradients.

Run: ``python tests/benchmarks/within_budget.py [--networks bert,convnet] [--share 60] [--json F] [--docs]``. A step is
forward, backward and AdamW. What it holds is weights, states and inputs, and what torch's allocator for the CPU gives
out in it. The budget is a share of that. Two ways: torch.compile with a budget, beside torch's own
`activation_memory_budget`, and `memplan.torch.checkpoint` in eager torch. Of torch's budget the largest value is sought
that is within the same budget; where none is, the one that holds least is taken. What it holds is counted
in code whose kernels are not compiled; for the value that is taken it is measured. Seconds are medians of ratios of 10
steps that took turns. What is in the file of --json already is not measured again.
"""

from __future__ import annotations

import copy
import json
import re
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from real_peaks import allocated
from reporting import Rows, arguments, mib, report
from torch import Tensor, nn
from torch._functorch import config as functorch
from torch._inductor import config as inductor
from torch._inductor.compile_fx import compile_fx
from torch._inductor.graph import GraphLowering

import memplan
from memplan.files import write_text
from memplan.torch.compiling import backend
from memplan.torch.inductor.compiled import _eagerly

SECTION = "within a budget"
HEAD = (
    *("network", "way", "usual, MiB", "budget", "held", "of the budget", "seconds / usual", "gradients"),
    *("torch's share", "held by it", "seconds / usual by it", "ours / by it"),
)
STEPS = 10
GRID = (0.1, 0.3, 0.5, 0.7)  # values of torch's budget
Network = tuple[nn.Module, dict[str, Tensor]]


class Block(nn.Module):
    """Two convolutions with batch norm, and what they are given on top."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.first_norm, self.second_norm = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(x + self.second_norm(self.second(hidden)))


class Convolutions(nn.Module):
    """Two stages of four blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1, bias=False)
        self.wide = nn.Sequential(*[Block(32) for _ in range(4)])
        self.down = nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False)
        self.deep = nn.Sequential(*[Block(64) for _ in range(4)])
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        hidden = self.deep(torch.relu(self.down(self.wide(torch.relu(self.stem(x))))))
        return {"loss": nn.functional.cross_entropy(self.head(hidden.mean((2, 3))), labels)}


def networks() -> dict[str, Callable[[], Network]]:
    """Small configurations of transformers with random weights, and convolutions."""
    import transformers as tf

    def tokens(model: nn.Module) -> Network:
        ids = torch.randint(1, 1000, (16, 64))
        return model, {"input_ids": ids, "labels": ids.clone()}

    def vit() -> Network:
        sizes = {"hidden_size": 128, "intermediate_size": 512, "image_size": 96, "patch_size": 12, "num_labels": 10}
        model = tf.ViTForImageClassification(tf.ViTConfig(num_hidden_layers=4, num_attention_heads=4, **sizes))
        return model, {"pixel_values": torch.randn(16, 3, 96, 96), "labels": torch.arange(16) % 10}

    wide = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 1000}
    t5 = {"d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 3, "num_decoder_layers": 3, "num_heads": 4}
    special = {"vocab_size": 1000, "decoder_start_token_id": 0, "pad_token_id": 0, "use_cache": False}
    return {
        "bert": lambda: tokens(tf.BertForMaskedLM(tf.BertConfig(intermediate_size=512, **wide))),
        "gpt2": lambda: tokens(
            tf.GPT2LMHeadModel(tf.GPT2Config(n_embd=128, n_layer=4, n_head=4, vocab_size=1000, use_cache=False))
        ),
        "t5": lambda: tokens(tf.T5ForConditionalGeneration(tf.T5Config(**t5, **special))),
        "llama": lambda: tokens(
            tf.LlamaForCausalLM(tf.LlamaConfig(intermediate_size=352, num_key_value_heads=2, use_cache=False, **wide))
        ),
        "vit": vit,
        "convnet": lambda: (
            Convolutions(),
            {"x": torch.randn(8, 3, 64, 64), "labels": torch.arange(8)},
        ),
    }


class Trained:
    """A copy of a network, and steps of it."""

    def __init__(self, network: Network, how: Callable[[nn.Module], Callable[..., Any]]) -> None:
        self.module, self.inputs = copy.deepcopy(network[0]), network[1]
        self._run = how(self.module)
        self.optimizer = torch.optim.AdamW(self.module.parameters())
        self.gradients = self._first()
        self.losses = [self.step(k) for k in range(2)]
        self.peak = allocated(lambda: self.losses.append(self.step(2)))

    def _backward(self, seed: int) -> Tensor:
        torch.manual_seed(seed)  # dropout
        found = self._run(**self.inputs)
        loss: Tensor = found["loss"] if isinstance(found, dict) else found.loss
        loss.backward()
        return loss.detach()

    def _first(self) -> list[Tensor]:
        """Gradients of the first step; what it changes besides is put back."""
        state = {name: value.clone() for name, value in self.module.state_dict().items()}
        self._backward(0)
        found = [p.grad.clone() for p in self.module.parameters() if p.grad is not None]
        self.optimizer.zero_grad()
        self.module.load_state_dict(state)
        return found

    def step(self, number: int) -> float:
        """A step, and its loss."""
        loss = float(self._backward(number))
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    @property
    def kept(self) -> int:
        """Bytes of weights, states and inputs."""
        states = [v for state in self.optimizer.state.values() for v in state.values()]
        given = [*self.module.parameters(), *self.module.buffers(), *self.inputs.values(), *states]
        return sum(tensor.nbytes for tensor in given)

    @property
    def held(self) -> int:
        """The most bytes that a step holds."""
        return self.kept + self.peak


def turns(one: Trained, other: Trained) -> float:
    """The other's seconds for a step, as a multiple of the one's: the median of steps that take turns, in training."""
    ratios = []
    for number in range(3, 3 + STEPS):
        seconds = []
        for trained in (one, other):
            begin = time.perf_counter()
            trained.losses.append(trained.step(number))
            seconds.append(time.perf_counter() - begin)
        ratios.append(seconds[1] / seconds[0])
    return statistics.median(ratios)


def equal(one: Trained, other: Trained) -> str:
    """How gradients of the first step, and losses of all, agree."""
    if all(map(torch.equal, one.gradients, other.gradients)) and one.losses[:3] == other.losses[:3]:
        return "equal"
    largest = max(float(g.abs().max()) for g in one.gradients)
    apart = max(float((a - b).abs().max()) for a, b in zip(one.gradients, other.gradients, strict=True))
    return f"within {apart / largest:.0e}"


def compiled(network: Network, percent: int, halvings: int) -> dict[str, Any]:
    """torch.compile within a budget, and torch's own."""
    torch._dynamo.reset()
    usual = Trained(network, lambda module: torch.compile(module, dynamic=False))
    budget = usual.held * percent // 100
    row = {"way": "torch.compile", "usual": usual.held, "budget": budget}
    how = {"backend": "memplan", "options": {"budget": budget, "optimizer": torch.optim.AdamW}}
    ours = None
    try:
        ours = Trained(network, lambda module: torch.compile(module, dynamic=False, **how))
        row |= {"held": ours.held, "time": turns(usual, ours), "gradients": equal(usual, ours)}
    except Exception as error:
        row |= {"refused": str(error)}
    if halvings >= 0:
        share = share_within(network, budget - usual.kept, halvings)
        theirs = Trained(network, partial(torch.compile, dynamic=False, backend=by_torch(share)))
        row |= {"share": share, "torch": theirs.held, "torch_time": turns(usual, theirs)}
        row |= {"against": turns(theirs, ours)} if ours else {}
    return row


def share_within(network: Network, budget: int, halvings: int) -> float:
    """The largest value of torch's budget found with which a step is within bytes, or the one that holds least.

    What is held does not grow with the value: where much is computed again, backward holds it all. So a grid comes
    first, and then halves beside the best of it.
    """
    tried = {share: counted(network, share) for share in GRID}
    step = (GRID[1] - GRID[0]) / 2
    for _ in range(halvings):
        best = _best(tried, budget)
        near = [best + step] if tried[best] <= budget else [best - step, best + step]
        tried |= {share: counted(network, share) for share in (round(s, 4) for s in near) if 0 <= share <= 1}
        step /= 2
    return _best(tried, budget)


def _best(tried: dict[float, int], budget: int) -> float:
    within = [share for share, held in tried.items() if held <= budget]
    return max(within) if within else min(tried, key=lambda share: tried[share])


def counted(network: Network, share: float) -> int:
    """The bytes that a step of torch.compile holds with a value of torch's budget; no kernel is compiled."""
    codes: list[str] = []

    def left_out(graph: Any) -> Any:
        codes.append(graph.codegen()[0].value)
        return SimpleNamespace(call=_eagerly(graph.module), __file__=None)

    lazily = functorch.patch(force_non_lazy_backward_lowering=True)
    with lazily, mock.patch.object(GraphLowering, "compile_to_module", left_out):
        found = torch.compile(copy.deepcopy(network[0]), backend=by_torch(share, backend), dynamic=False)
        found(**network[1])
    said = [json.loads(line) for code in codes for line in re.findall(r"_memplan_loaded\('(.*)'\)", code)]
    return max(int(graph["figures"]["cpu"]["default"]) for graph in said)


def by_torch(share: float, compile: Callable[..., Any] = compile_fx) -> Callable[..., Any]:
    """Inductor, with torch's budget; a function of its own for each, so that torch compiles anew."""

    def compiler(graph: Any, inputs: Any) -> Any:
        with functorch.patch(activation_memory_budget=share):
            return compile(graph, inputs)

    return compiler


def checkpointed(network: Network, percent: int, _: int) -> dict[str, Any]:
    """Eager torch with checkpoints."""
    usual = Trained(network, lambda module: module)
    budget = usual.held * percent // 100
    row = {"way": "checkpoint", "usual": usual.held, "budget": budget}

    def lightened(module: nn.Module) -> nn.Module:
        memplan.torch.checkpoint(module, budget, kwargs=network[1], optimizer=torch.optim.AdamW)
        return module

    try:
        ours = Trained(network, lightened)
    except memplan.InfeasibleError as error:
        return row | {"refused": str(error), "least": error.peak}
    return row | {"held": ours.held, "time": turns(usual, ours), "gradients": equal(usual, ours)}


def main() -> None:
    """Train, measure, print."""
    parser = arguments(__doc__)
    parser.add_argument("--networks", default=",".join(networks()), help="names, separated by commas")
    parser.add_argument("--share", type=int, default=60, help="of the peak, in %%")
    parser.add_argument("--ways", default="compile,checkpoint")
    parser.add_argument("--torch", type=int, default=2, help="halvings of the grid of activation_memory_budget")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows: Rows = json.loads(options.json.read_text())["rows"] if options.json and options.json.exists() else []
    caches = inductor.patch(fx_graph_cache=False)
    with caches, functorch.patch(enable_autograd_cache=False), torch._dynamo.config.patch(recompile_limit=64):
        for name in options.networks.split(","):
            torch.manual_seed(0)
            network = networks()[name]()
            for way in options.ways.split(","):
                measured = {"compile": compiled, "checkpoint": checkpointed}[way]
                if any((row["network"], row["asked"]) == (name, way) for row in rows):
                    continue
                rows.append({"network": name, "asked": way, **measured(network, options.share, options.torch)})
                print(*cells_of(rows[-1]), rows[-1].get("refused", ""), sep=" | ", flush=True)
                if options.json:
                    write_text(options.json, json.dumps({"rows": rows}))
    cells = [cells_of(row) for row in rows]
    report(SECTION, HEAD, cells, rows, options, "fit.md")


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    cells = [row["network"], row["way"], mib(row["usual"]), mib(row["budget"])]
    if "refused" in row:
        cells += ["refused", "", "", ""]
    else:
        cells += [mib(row["held"]), f"{row['held'] / row['budget']:.3f}", f"{row['time']:.2f}", row["gradients"]]
    if "share" not in row:
        return [*cells, "", "", "", ""]
    against = f"{row['against']:.2f}" if "against" in row else ""
    return [*cells, f"{row['share']:g}", mib(row["torch"]), f"{row['torch_time']:.2f}", against]


if __name__ == "__main__":
    main()
