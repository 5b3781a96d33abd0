"""A decoder of pictures with group norms, in pieces that run in passes: bytes and seconds beside eager torch.

Run: ``python tests/benchmarks/decoders.py [--pixels 256] [--shares 0.5,0.35] [--json F] [--docs]``. The decoder has the
widths of the one in Stable Diffusion. `--paper` only plans, and `--capacity` asks for bytes, such as "4GiB".
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import torch
from reporting import arguments, mib, ratio, report
from torch import Tensor, nn

import memplan

HEAD = ("bytes", "MiB", "work added", "seconds", "calls", "pieces at most", "difference", "found in, s")
WIDTHS = (512, 512, 256, 128)


class Block(nn.Module):
    """Two convolutions after group norms, and what goes past them."""

    def __init__(self, inside: int, out: int) -> None:
        super().__init__()
        self.first, self.last = nn.GroupNorm(32, inside), nn.GroupNorm(32, out)
        self.up, self.down = nn.Conv2d(inside, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.past = nn.Identity() if inside == out else nn.Conv2d(inside, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up(nn.functional.silu(self.first(x)))
        made: Tensor = self.past(x) + self.down(nn.functional.silu(self.last(hidden)))
        return made


class Attention(nn.Module):
    """Each place attends to all."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.given, self.out = (
            nn.GroupNorm(32, width),
            nn.Conv2d(width, 3 * width, 1),
            nn.Conv2d(width, width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.given(self.norm(x)).flatten(2).transpose(1, 2)[:, None].chunk(3, -1)
        found = nn.functional.scaled_dot_product_attention(query, key, value)
        made: Tensor = x + self.out(found[:, 0].transpose(1, 2).reshape(x.shape))
        return made


def decoder(widths: tuple[int, ...] = WIDTHS) -> nn.Module:
    """From a latent picture to one of eight times its size."""
    width = widths[0]
    layers: list[nn.Module] = [
        nn.Conv2d(4, width, 3, padding=1),
        Block(width, width),
        Attention(width),
        Block(width, width),
    ]
    for stage, out in enumerate(widths):
        layers += [Block(width, out), Block(out, out), Block(out, out)]
        width = out
        if stage < len(widths) - 1:
            layers += [nn.Upsample(scale_factor=2), nn.Conv2d(width, width, 3, padding=1)]
    return nn.Sequential(*layers, nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1)).eval()


def main() -> None:
    """Fit the decoder into shares of what it holds, and run it."""
    parser = arguments(__doc__)
    parser.add_argument("--pixels", type=int, default=256, help="of each side of the picture")
    parser.add_argument("--shares", type=lambda text: [*map(float, text.split(","))], default=[0.5, 0.35, 0.25, 0.2])
    parser.add_argument("--capacity")
    parser.add_argument("--paper", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    net, z = decoder(), torch.randn(1, 4, options.pixels // 8, options.pixels // 8)
    source = memplan.capture(net, args=(z,), kernels=True)
    whole = memplan.plan(source).peak
    expected = None if options.paper else eager(net, z)
    rows: list[dict[str, Any]] = []
    for capacity in [options.capacity] if options.capacity else [int(share * whole) for share in options.shares]:
        begin = time.perf_counter()
        plan = memplan.fit(source, capacity, allow=("split", "recompute"))
        row = {"peak": plan.peak, "whole": whole, "fit": time.perf_counter() - begin, "calls": len(plan.graph.ops)}
        row |= {"work": plan.fitting.added_cost / plan.fitting.cost, "pieces": max(c.pieces for c in plan.changes)}
        rows.append(row | ({} if expected is None else run(plan, net, z, expected)))
        print(rows[-1], flush=True)
    report("decoders", HEAD, map(cells_of, rows), rows, options, page="split.md")


def run(plan: memplan.Plan, net: nn.Module, z: Tensor, expected: Tensor) -> dict[str, Any]:
    """Seconds of two runs in pieces, each beside one of eager torch, and the difference of the pictures."""
    found = plan.run(z)
    shares = [seconds(lambda: plan.run(z)) / seconds(lambda: eager(net, z)) for _ in range(2)]
    outside = (found.outputs - expected).abs().max() / expected.abs().max()
    return {"seconds": min(shares), "difference": float(outside), "outside": found.outside}


def eager(net: nn.Module, z: Tensor) -> Tensor:
    """The picture."""
    with torch.no_grad():
        made: Tensor = net(z)
    return made


def seconds(function: Callable[[], Any]) -> float:
    """Of one call."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def cells_of(row: dict[str, Any]) -> list[str]:
    """A row of the table; bytes and seconds are shares of eager torch's."""
    ran = [f"{row['seconds']:.2f}", f"{row['difference']:.0e}"] if "seconds" in row else ["", ""]
    held = [ratio(row["peak"] + row.get("outside", 0), row["whole"]), mib(row["peak"] + row.get("outside", 0))]
    return [*held, f"{row['work']:.0%}", ran[0], f"{row['calls']:,}", str(row["pieces"]), ran[1], f"{row['fit']:.1f}"]


if __name__ == "__main__":
    main()
