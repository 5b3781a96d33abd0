"""Functions of JAX drawn at random: plans beside XLA's own live ranges, and steps within a budget."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import memplan  # noqa: E402
from builders.jax_drawn import drawn  # noqa: E402

SEEDS = range(200)


def live_ranges(folder: Path) -> dict[str, tuple[int, int]]:
    """The steps in which XLA says that each value is alive, of all computations."""
    (path,) = folder.glob("*live-range.txt")
    found = re.findall(r"^    (\S+?)\{([0-9,]*)\}:(\d+)-(\d+)$", path.read_text(), re.MULTILINE)
    return {name + (f"{{{index}}}" if index else ""): (int(begin), int(end)) for name, index, begin, end in found}


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_xla_keeps_alive_together_lies_apart(seed: int, tmp_path: Path) -> None:
    function, args = drawn(seed)
    step = jax.jit(jax.value_and_grad(function)).lower(*args)
    compiled = step.compile(compiler_options={"xla_dump_to": str(tmp_path)})
    plan = memplan.plan(compiled)
    said = compiled.memory_analysis()
    if "conditional" not in compiled.as_text():  # a branch of ours may need more
        assert plan.peak <= said.temp_size_in_bytes + said.output_size_in_bytes
    alive = live_ranges(tmp_path)
    placed = {tensor.name.partition(" (")[0]: tensor for tensor in plan if tensor.bytes and tensor.offset is not None}
    checked = 0
    for (a, first), (b, second) in combinations(((name, placed[name]) for name in placed if name in alive), 2):
        if alive[a][0] < alive[b][1] and alive[b][0] < alive[a][1]:
            checked += 1
            apart = first.offset + first.bytes <= second.offset or second.offset + second.bytes <= first.offset
            assert apart, (a, alive[a], b, alive[b])
    assert checked


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_within_a_budget_has_the_same_results(seed: int) -> None:
    function, args = drawn(seed)
    try:
        found = memplan.jax.fit(function, "80%", args=args, compilations=3)
    except memplan.InfeasibleError:
        return
    step, expected = (jax.jit(jax.value_and_grad(each)) for each in (found, function))
    assert step.lower(*args).compile().memory_analysis().temp_size_in_bytes <= found.budget
    leaves: Any = zip(jax.tree.leaves(step(*args)), jax.tree.leaves(expected(*args)), strict=True)
    assert all(jnp.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in leaves)
