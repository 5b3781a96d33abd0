"""One network through every door of memplan: as a module, exported, decomposed, from a .pt2 and an ONNX file, recorded.

Run: ``python tests/benchmarks/doors.py [--models bert,audio] [--json F] [--docs]``. Bytes are KiB of intermediates in
inference, and in training where it says so. `docs/formats.md` says why they differ. Exits with 1 where they do so for
another reason: object and file of a program differ, a node's workspace does not explain what a program needs more, or a
plan does not run in its bytes with the results of eager.
"""

from __future__ import annotations

import io
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from reporting import Rows, arguments, report
from torch import Tensor, nn

import memplan

COLUMNS = ("module", "exported", "inside", "decomposed", "file", "onnx", "eager", "train", "exported_train")
HEAD = (
    *("network", "module", "exported", "inside a node at most", "decomposed", ".pt2", "ONNX", "eager, recorded"),
    *("training, module", "training, exported"),
)
AS_EAGER: dict[str, Any] = {"inplace": False, "zero_copy": False}
Network = tuple[nn.Module, dict[str, Tensor]]  # in eval mode, and the keyword arguments of its forward


class Audio(nn.Module):
    """Convolutions, a recurrent layer of two directions, a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.enc, self.dec = nn.Conv1d(1, 16, 16, 8, 4), nn.ConvTranspose1d(32, 1, 16, 8, 4)
        self.body = nn.Sequential(nn.Conv1d(16, 32, 1), nn.PReLU(), nn.BatchNorm1d(32), nn.Conv1d(32, 16, 1))
        self.rnn = nn.GRU(16, 16, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.enc(x)
        h = h + self.body(h)
        return self.dec(self.rnn(h.transpose(1, 2))[0].transpose(1, 2))  # type: ignore[no-any-return]


class Joined(nn.Module):
    """Concatenations of all that was computed."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(8 * (i + 1), 8, 3, padding=1) for i in range(4))

    def forward(self, x: Tensor) -> Tensor:
        found = [x]
        for layer in self.layers:
            found.append(torch.relu(layer(torch.cat(found, 1))))
        return torch.cat(found, 1)


def _hand(make: Callable[[], nn.Module], *shape: int) -> Callable[[], Network]:
    return lambda: (make().eval(), {"x": torch.randn(shape)})


def _text(kind: str, **sizes: Any) -> Callable[[], Network]:
    """A small transformer over tokens."""

    def make() -> Network:
        import transformers as tf

        config = getattr(tf, f"{kind.partition('For')[0].removesuffix('LMHeadModel')}Config")(vocab_size=97, **sizes)
        return getattr(tf, kind)(config).eval(), {"input_ids": torch.randint(1, 97, (2, 16))}

    return make


def _image(kind: str, **sizes: Any) -> Callable[[], Network]:
    def make() -> Network:
        import transformers as tf

        config = getattr(tf, f"{kind.partition('For')[0]}Config")(num_labels=10, **sizes)
        return getattr(tf, kind)(config).eval(), {"pixel_values": torch.randn(2, 3, 32, 32)}

    return make


class Encoder(nn.Module):
    """A layer that torch runs as one op, in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)  # type: ignore[no-any-return]


_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
NETWORKS: dict[str, Callable[[], Network]] = {
    "audio": _hand(Audio, 2, 1, 400),
    "joined": _hand(Joined, 2, 8, 16, 16),
    "encoder": _hand(Encoder, 2, 8, 32),
    "bert": _text("BertForMaskedLM", **_SMALL),
    "deberta": _text("DebertaV2ForMaskedLM", **_SMALL),
    "gpt2": _text("GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=4),
    "bloom": _text("BloomForCausalLM", hidden_size=32, n_layer=2, n_head=4),
    "llama": _text("LlamaForCausalLM", num_key_value_heads=2, **_SMALL),
    "gemma2": _text("Gemma2ForCausalLM", num_key_value_heads=2, head_dim=8, **_SMALL),
    "vit": _image("ViTForImageClassification", image_size=32, patch_size=8, **_SMALL),
    "resnet": _image("ResNetForImageClassification", embedding_size=8, hidden_sizes=[16, 32], depths=[2, 2]),
    "convnext": _image("ConvNextForImageClassification", num_stages=2, hidden_sizes=[8, 16], depths=[2, 2]),
}


def main() -> int:
    """Measure, print; 1 if doors differ for no known reason."""
    parser = arguments(__doc__)
    parser.add_argument("--models", default=",".join(NETWORKS), help="names, separated by commas")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    rows: Rows = [{"network": name, **measured(name)} for name in options.models.split(",")]
    cells = [cells_of(row) for row in rows]
    report("doors", HEAD, cells, rows, options, "formats.md")
    wrong = [f"{row['network']}: {', '.join(row['faults'])}" for row in rows if row["faults"]]
    print("\n".join(wrong), end="\n" * bool(wrong))
    return int(bool(wrong))


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table, in KiB; what could not be exported is empty."""
    return [row["network"], *("" if row[c] is None else f"{row[c] / 1024:,.1f}" for c in COLUMNS)]


def measured(name: str) -> dict[str, Any]:
    """Peaks through all doors, and what is wrong with them."""
    torch.manual_seed(0)
    module, inputs = NETWORKS[name]()
    if hasattr(getattr(module, "config", None), "use_cache"):
        module.config.use_cache = False  # type: ignore[union-attr]
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {"faults": []}
    plan = memplan.plan(module, kwargs=inputs, time_limit=2)
    with torch.no_grad():
        expected = _tensors(module(**inputs))
        with memplan.torch.record() as tape:
            module(**inputs)
    run = memplan.plan(module, kwargs=inputs, alignment=64, time_limit=2).run(kwargs=inputs, check=True)
    row |= {"module": plan.peak, "eager": memplan.plan(tape, time_limit=2).peak}
    _note(row, "a run differs", not all(map(torch.equal, _tensors(run.outputs), expected)))
    with tempfile.TemporaryDirectory() as folder, _quiet():
        program = _exported(module, inputs)
        if program is not None:
            _through_programs(row, program, module, inputs, Path(folder))
    module.train()
    row["train"] = memplan.plan(module, kwargs=inputs, train=True, time_limit=2).peak
    trained = _exported(module, inputs)
    if trained is not None:
        row["exported_train"] = memplan.plan(trained, train=True, time_limit=2).peak
    return row


def _through_programs(
    row: dict[str, Any], program: torch.export.ExportedProgram, module: nn.Module, inputs: dict[str, Tensor], at: Path
) -> None:
    exported = memplan.plan(program, time_limit=2)
    assert exported.graph is not None
    row |= {"exported": exported.peak, "inside": max(op.workspace for op in exported.graph.ops)}
    loads = [memplan.plan(module, kwargs=inputs, **AS_EAGER).load, memplan.plan(program, **AS_EAGER).load]
    _note(row, "workspaces do not explain the load", not loads[0] <= loads[1] <= loads[0] + row["inside"])
    row["decomposed"] = _peak_of(lambda: program.run_decompositions())
    torch.export.save(program, at / "net.pt2")
    row["file"] = memplan.plan(at / "net.pt2", time_limit=2).peak
    _note(row, "the file differs", row["file"] != exported.peak)
    row["onnx"] = _peak_of(lambda: _to_onnx(program, at / "net.onnx"))


def _note(row: dict[str, Any], fault: str, found: bool) -> None:
    row["faults"] += [fault] * found


def _exported(module: nn.Module, inputs: dict[str, Tensor]) -> torch.export.ExportedProgram | None:
    try:
        with _quiet():
            return torch.export.export(module, (), inputs)
    except Exception:  # of torch's exporter: there is no such door then
        return None


def _peak_of(make: Callable[[], Any]) -> int | None:
    try:
        return memplan.plan(make(), time_limit=2).peak
    except (memplan.errors.SourceError, memplan.errors.GraphError):
        raise
    except Exception:  # as above
        return None


def _to_onnx(program: torch.export.ExportedProgram, path: Path) -> Path:
    torch.onnx.export(program, (), str(path), dynamo=True, verbose=False)
    return path


@contextmanager
def _quiet() -> Iterator[None]:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield


def _tensors(result: Any) -> list[Tensor]:
    return [value for value in torch.utils._pytree.tree_leaves(result) if isinstance(value, Tensor)]


if __name__ == "__main__":
    sys.exit(main())
