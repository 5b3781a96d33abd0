"""What a training step of a language model pays for its loss: compiled whole, in pieces, by torch's chunker, by hand.

A step is forward and backward without an optimizer, so it holds its gradients at the end. Each way runs in processes
of its own. Each compiles, runs a step to warm up, gives free memory back, and takes the anonymous memory that it holds
then as its baseline. Bytes of torch's allocator come from the profiler. Figures are medians. A difference is the
largest of a gradient, or of the loss, from eager's, as a share of the largest number in it.
Run: ``python tests/benchmarks/language_models.py [--networks a,b] [--ways a,b] [--processes N] [--steps N] [--json F]
[--docs]``. Processes that are in the file of --json already are not run again.
"""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

from paid_steps import allocated, memory
from reporting import Rows, arguments, mib, report

from memplan.files import write_text
from memplan.torch.training.library import cpu_if_built

WAYS = ("eager", "inductor", "auto_chunker", "auto_chunker 1", "fused by hand", "memplan", "memplan in pieces")
BUDGETS = {"lm": "kept + 515MiB", "gpt2": "kept + 60%", "qwen2": "kept + 70%"}
HEAD = ("network", "way", "allocator, MiB", "of Inductor", "process, MiB", "seconds", "of Inductor", "difference")
Bodies = tuple[Any, Any, int, tuple[int, int]]  # tokens to hidden states, the head, words, batch and length


def main() -> None:
    """Run each way in processes of its own, and print the table."""
    if sys.argv[1:2] == ["--one"]:
        name, way, steps, expected = sys.argv[2:]
        print(json.dumps(one(name, way, int(steps), Path(expected))))
        return
    parser = arguments(__doc__)
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(NETWORKS))
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    rows: Rows = json.loads(options.json.read_text())["rows"] if options.json and options.json.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        for name, way in product(options.networks, options.ways):
            row = row_of(rows, name, way)
            expected = Path(folder) / f"{name}.pt"
            if len(row["found"]) < options.processes and way != "eager" and not expected.exists():
                in_process(name, "eager", 0, expected)
            while len(row["found"]) < options.processes:
                row["found"].append(in_process(name, way, options.steps, expected))
                if options.json:
                    write_text(options.json, json.dumps({"rows": rows}))
            print(*cells_of(row, rows), flush=True)
    report("language models", HEAD, [cells_of(row, rows) for row in rows], rows, options, "split.md")


def row_of(rows: Rows, name: str, way: str) -> dict[str, Any]:
    for row in rows:
        if (row["network"], row["way"]) == (name, way):
            return row
    rows.append({"network": name, "way": way, "found": []})
    return rows[-1]


def in_process(name: str, way: str, steps: int, expected: Path) -> dict[str, Any]:
    """The figures of a process of its own, or its error."""
    command = [sys.executable, __file__, "--one", name, way, str(steps), str(expected)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "Error: " in line]
        return {"error": (said or done.stderr.strip().splitlines())[-1][:400]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def median(row: dict[str, Any], key: str) -> float:
    return statistics.median(found.get(key, math.nan) for found in row["found"])


def cells_of(row: dict[str, Any], rows: Rows) -> list[str]:
    """A row of the table."""
    base, said = row_of(rows, row["network"], "inductor"), row["way"]
    if row["way"] == "memplan in pieces":
        said += f", {BUDGETS[row['network']]}"
    errors = [found["error"] for found in row["found"] if "error" in found]
    if errors or not row["found"]:
        return [row["network"], said, errors[0] if errors else "", *[""] * (len(HEAD) - 3)]
    shares = [
        f"{median(row, key) / median(base, key):.3f}" if base["found"] else "" for key in ("allocator", "seconds")
    ]
    figures = (mib(median(row, "allocator")), shares[0], mib(median(row, "process")), f"{median(row, 'seconds'):.2f}")
    return [row["network"], said, *figures, shares[1], f"{median(row, 'difference'):.1e}"]


def one(name: str, way: str, steps: int, expected: Path) -> dict[str, Any]:
    """The figures of this process. Eager leaves its loss and gradients in a file, where there is none."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(2)
    body, head, words, shape = NETWORKS[name]()
    tokens, targets = (torch.randint(0, words, shape, generator=torch.Generator().manual_seed(k)) for k in (1, 2))
    parameters = list({id(p): p for module in (body, head) for p in module.parameters()}.values())
    loss_of = compiled(way, name, body, head)

    def step() -> Any:
        for parameter in parameters:
            parameter.grad = None
        loss = loss_of(tokens, targets)
        loss.backward()
        return loss.detach()

    found = [step(), *(p.grad for p in parameters)]
    if way == "eager" and not expected.exists():
        torch.save(found, expected)
    pairs = zip(found, torch.load(expected), strict=True)
    difference = max(float((a - b).abs().max() / b.abs().max().clamp_min(1e-30)) for a, b in pairs)
    del found, pairs
    for parameter in parameters:
        parameter.grad = None
    if steps == 0:
        return {"difference": difference}
    gc.collect()
    if (library := cpu_if_built()) is not None:
        library.give_back()
    ctypes.CDLL(None).malloc_trim(0)
    base = memory()["RssAnon"]
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    after = memory()
    for parameter in parameters:
        parameter.grad = None
    return {
        "allocator": allocated(step),
        "process": after["VmHWM"] - after["RssFile"] - base,
        "seconds": statistics.median(seconds),
        "difference": difference,
    }


def compiled(way: str, name: str, body: Any, head: Any) -> Callable[[Any, Any], Any]:
    """The loss of tokens and targets."""
    import torch

    def loss(tokens: Any, targets: Any) -> Any:
        return torch.nn.functional.cross_entropy(head(body(tokens)).flatten(0, 1), targets.flatten())

    if way == "fused by hand":
        inner = torch.compile(body)
        return lambda tokens, targets: fused()(inner(tokens).flatten(0, 1), head.weight, targets.flatten())
    options: dict[str, Any] = {}
    if way.startswith("auto_chunker"):
        options = {"auto_chunker.enable": True}
        if way.endswith("1"):
            options["auto_chunker.amplify_ratio_threshold"] = 1
    if way == "memplan in pieces":
        logging.basicConfig(level="INFO")
        options = {"budget": BUDGETS[name], "allow": ["split", "recompute"]}
    if way == "eager":
        return loss
    backend = "memplan" if way.startswith("memplan") else "inductor"
    return torch.compile(loss, backend=backend, options=options or None)


def fused() -> Callable[..., Any]:
    """The mean cross entropy of a linear head, tokens in pieces; forward computes the gradients."""
    import torch

    class Fused(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, hidden: Any, weight: Any, targets: Any) -> Any:
            rows = 2 ** math.ceil(math.log2(len(hidden) / math.ceil(len(weight) / hidden.shape[1])))  # as Liger does
            total, of_hidden, of_weight = hidden.new_zeros(()), torch.empty_like(hidden), torch.zeros_like(weight)
            for h, y, made in zip(*(one.split(rows) for one in (hidden, targets, of_hidden)), strict=True):
                logits = h @ weight.t()
                logits -= logits.logsumexp(1, keepdim=True)
                total -= logits.gather(1, y[:, None]).sum() / len(targets)
                logits.exp_().scatter_add_(1, y[:, None], logits.new_full((len(y), 1), -1.0)).div_(len(targets))
                torch.mm(logits, weight, out=made)
                of_weight.addmm_(logits.t(), h)
            ctx.gradients = (of_hidden, of_weight)
            return total

        @staticmethod
        def backward(ctx: Any, given: Any) -> Any:
            of_hidden, of_weight = ctx.gradients
            del ctx.gradients
            return of_hidden.mul_(given), of_weight.mul_(given), None

    return Fused.apply  # type: ignore[no-any-return]


def _lm(layers: int = 4, width: int = 768, words: int = 50257, length: int = 1024) -> Bodies:
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.between, self.up = nn.LayerNorm(width), nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, tokens, _ = x.shape
            q, k, v = self.qkv(self.before(x)).view(batch, tokens, 3, 12, width // 12).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
            return x + self.down(nn.functional.gelu(self.up(self.between(x))))

    blocks = (Block() for _ in range(layers))
    body = nn.Sequential(nn.Embedding(words, width), *blocks, nn.LayerNorm(width))
    return body, torch.nn.Linear(width, words, bias=False), words, (2, length)


def _of_transformers(config: str, model: str, body: str, **how: Any) -> Callable[[], Bodies]:
    def make() -> Bodies:
        import torch
        import transformers

        made = getattr(transformers, model)(getattr(transformers, config)(use_cache=False, **how)).train()

        class Body(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = getattr(made, body)

            def forward(self, tokens: Any) -> Any:
                return self.inner(tokens).last_hidden_state

        return Body(), made.lm_head, made.config.vocab_size, (2, 256)

    return make


_QWEN2 = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4}
_QWEN2 |= {"num_key_value_heads": 2}
_GPT2 = {"n_embd": 256, "n_layer": 4, "n_head": 4} | dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
NETWORKS: dict[str, Callable[[], Bodies]] = {
    "lm": _lm,
    "gpt2": _of_transformers("GPT2Config", "GPT2LMHeadModel", "transformer", **_GPT2),
    "qwen2": _of_transformers("Qwen2Config", "Qwen2ForCausalLM", "model", **_QWEN2),
}


if __name__ == "__main__":
    main()
