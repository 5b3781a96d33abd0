"""Functions of JAX, as XLA has compiled them: what we count beside what XLA says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import memplan  # noqa: E402


def normal(seed: int, *shape: int) -> Any:
    return jax.random.normal(jax.random.key(seed), shape) * 0.1


def mlp(weights: Any, x: Any) -> Any:
    for a, b in weights:
        x = x + jax.nn.relu(x @ a) @ b
    return (x**2).mean()


def scanned(weights: Any, x: Any) -> Any:
    x, _ = jax.lax.scan(lambda x, w: (x + jnp.tanh(x @ w[0]) @ w[1], None), x, weights)
    return (x**2).mean()


def branching(x: Any) -> Any:
    def body(carried: Any) -> Any:
        step, x = carried
        even = step % 2 == 0
        return step + 1, jax.lax.cond(even, lambda x: jnp.sin(x) @ x, lambda x: jnp.cos(x @ x) + x, x)

    return jax.lax.while_loop(lambda carried: carried[0] < 5, body, (0, x))[1]


def step_of(loss: Any) -> Any:
    def step(weights: Any, *args: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, *args)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value

    return jax.jit(step, donate_argnums=0)


WEIGHTS = [(normal(k, 32, 64), normal(k + 9, 64, 32)) for k in range(3)]
STACKED = (normal(1, 4, 32, 64), normal(2, 4, 64, 32))
CALLS = {
    "inference": (jax.jit(mlp), (WEIGHTS, normal(0, 16, 32))),
    "training": (step_of(mlp), (WEIGHTS, normal(0, 16, 32))),
    "scan": (step_of(scanned), (STACKED, normal(0, 16, 32))),
    "branches": (jax.jit(branching), (normal(0, 64, 64),)),
    "vmap": (jax.jit(jax.vmap(jax.grad(scanned), (None, 0))), (STACKED, normal(0, 4, 16, 32))),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CALLS)
def test_no_more_than_xla_needs_in_its_order(name: str) -> None:
    function, args = CALLS[name]
    compiled = function.lower(*args).compile()
    said = compiled.memory_analysis()
    plan = memplan.plan(compiled)
    needs = said.temp_size_in_bytes + said.output_size_in_bytes
    assert 0 < plan.peak <= needs
    assert memplan.plan(compiled, order="best").peak <= plan.peak


@pytest.mark.parametrize("name", ["inference", "training"])
def test_xla_has_a_row_in_comparisons_and_its_dump_says_the_same(name: str, tmp_path: Path) -> None:
    function, args = CALLS[name]
    compiled = function.lower(*args).compile({"xla_dump_to": str(tmp_path), "xla_dump_hlo_as_text": True})
    said = compiled.memory_analysis()
    found = memplan.compare(compiled, ["auto"], orders=["given", "best"])
    assert found["xla"].peak == said.temp_size_in_bytes + said.output_size_in_bytes
    assert found["auto", "best"].peak <= found["auto", "given"].peak <= found["xla"].peak
    dumped = memplan.compare(tmp_path, ["auto"])
    assert [(row.planner, row.peak) for row in dumped] == [
        ("auto", found["auto", "given"].peak),
        ("xla", found["xla"].peak),
    ]
    assert memplan.compare(function, ["auto"], args=args)["xla"].peak == found["xla"].peak


def test_results_that_lie_apart_are_counted_as_xla_does() -> None:
    function, args = CALLS["branches"]
    said = function.lower(*args).compile().memory_analysis()
    plan = memplan.plan(function, args=args)
    assert plan.peak == pytest.approx(said.temp_size_in_bytes + said.output_size_in_bytes, rel=0.01)


def test_functions_what_is_lowered_and_what_is_compiled() -> None:
    function, args = CALLS["training"]
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), args)
    lowered = function.lower(*shapes)
    peaks = {
        memplan.plan(function, args=shapes).peak,
        memplan.plan(lowered).peak,
        memplan.plan(lowered.compile()).peak,
        memplan.plan(memplan.capture(function, args=args)).peak,
    }
    assert len(peaks) == 1


def test_the_line_of_code_is_in_the_explanation() -> None:
    function, args = CALLS["training"]
    assert "test_jax.py:" in str(memplan.plan(function, args=args).explain())


def test_arguments_by_name() -> None:
    function = jax.jit(lambda x, *, y: x @ y)
    assert memplan.plan(function, args=(normal(0, 8, 8),), kwargs={"y": normal(1, 8, 8)}).peak == 256
    with pytest.raises(memplan.errors.SourceError, match="does not compile with these arguments: TypeError: "):
        memplan.plan(function, args=(normal(0, 8, 8),), kwargs={"y": normal(1, 4, 8)})


def test_an_estimate_is_what_xla_says() -> None:
    function, args = CALLS["training"]
    said = function.lower(*args).compile().memory_analysis()
    found = memplan.estimate(function, args=args)
    together = said.argument_size_in_bytes + said.output_size_in_bytes - said.alias_size_in_bytes
    assert found.total == together + said.temp_size_in_bytes + said.generated_code_size_in_bytes
    assert found.kept == said.argument_size_in_bytes
    with pytest.raises(TypeError, match="train does not apply to a function of"):
        memplan.estimate(function, args=args, train=True)
    with pytest.raises(ValueError, match="device='cuda': this process compiles for cpu"):
        memplan.estimate(function, args=args, device="cuda")


def test_the_largest_batch_that_fits() -> None:
    _, (weights, x) = CALLS["training"]
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    step = jax.jit(lambda weights, x: jax.grad(mlp)(weights, x))
    found = memplan.largest(step, "1MiB", axes={"x": 0}, args=(weights, shape))
    assert found.total is not None
    assert found.total <= 2**20
    assert found.next_total is not None
    assert found.next_total > 2**20
    with pytest.raises(
        ValueError, match=r"axes names 'y', which is no array among the arguments; these are: x \(16, 32\)"
    ):
        memplan.largest(step, "1MiB", axes={"y": 0}, args=(weights, shape))
    with pytest.raises(memplan.errors.SourceError, match="the function compiles with 32 at axis 1 of 'x', not with"):
        memplan.largest(step, "1MiB", axes={"x": 1}, args=(weights, shape))


def test_flags_that_need_less() -> None:
    """Sums over large products: the scheduler for memory does not make all products at once."""

    def wide(x: Any) -> Any:
        return sum((jnp.sin(x[k : k + 1].T @ x[k : k + 1]).sum(0) for k in range(6)), jnp.zeros(x.shape[1]))

    function, args = jax.jit(wide), (jax.ShapeDtypeStruct((6, 256), "float32"),)
    found = memplan.jax.flags(function, args=args)
    assert [row.options for row in found.rows].count({}) == 1
    assert found.now.temporaries == function.lower(*args).compile().memory_analysis().temp_size_in_bytes
    best = found.rows[0]
    again = jax.jit(wide, compiler_options=dict(best.options)).lower(*args).compile()
    assert again.memory_analysis().temp_size_in_bytes == best.temporaries == min(r.temporaries for r in found.rows)
    assert best.temporaries < found.now.temporaries
    assert best.flags in (
        "--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
        "--xla_cpu_enable_concurrency_optimized_scheduler=false",  # of older versions
    )
    assert "as it is" in str(found)
    with pytest.raises(memplan.errors.SourceError, match="does not compile with these arguments: TypeError: "):
        memplan.jax.flags(function, args=())
