"""`memplan.jax.fit`: the same results from a step that holds fewer bytes."""

from __future__ import annotations

from functools import partial
from itertools import combinations, pairwise
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import memplan  # noqa: E402
from memplan.jax.budgets import costs  # noqa: E402
from memplan.jax.budgets.cheapest import _run, _traced  # noqa: E402
from memplan.jax.budgets.regions import Choice, Traced  # noqa: E402
from memplan.jax.budgets.values import worthy  # noqa: E402


def normal(seed: int, *shape: int) -> Any:
    return jax.random.normal(jax.random.key(seed), shape) * 0.1


@jax.custom_vjp
def clipped(x: Any) -> Any:
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))


def scanned(weights: Any, x: Any) -> Any:
    def layer(x: Any, w: Any) -> Any:
        return x + jax.nn.gelu(x @ w["up"]) @ w["down"], None

    return (jax.lax.scan(layer, x, weights)[0] ** 2).mean()


def layered(weights: Any, x: Any, *, key: Any, name: str) -> Any:
    """Layers with what functions of JAX have: jitted parts, chance, gradients of their own, other results."""
    assert name == "net"
    means = []
    for number, w in enumerate(weights):
        h = jax.jit(jax.nn.relu)(x @ w["up"])
        h = jnp.where(jax.random.bernoulli(jax.random.fold_in(key, number), 0.9, h.shape), h, 0)
        x = clipped(x + jax.jit(lambda h, w: jnp.tanh(h) @ w)(h, w["down"]))
        means.append(x.mean())
    return (x**2).mean(), {"means": means, "nothing": None}


STACKED = {"up": normal(1, 8, 32, 128), "down": normal(2, 8, 128, 32)}
LAYERS = [{"up": normal(k, 16, 64), "down": normal(k + 9, 64, 16)} for k in range(4)]


def temporaries(function: Any, *args: Any) -> int:
    compiled = jax.jit(jax.value_and_grad(function)).lower(*args).compile()
    return int(compiled.memory_analysis().temp_size_in_bytes)


def close(a: Any, b: Any) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert jnp.allclose(x, y, rtol=1e-5, atol=1e-7)


def test_a_step_is_within_the_budget_as_xla_counts() -> None:
    args = (STACKED, normal(3, 64, 32))
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), args)
    found = memplan.jax.fit(scanned, "50%", args=shapes, compilations=3)
    assert found.budget == temporaries(scanned, *args) // 2
    assert found.after.temporaries == temporaries(found, *args) <= found.budget
    close(jax.jit(jax.value_and_grad(found))(*args), jax.jit(jax.value_and_grad(scanned))(*args))
    close(jax.vmap(jax.grad(found), (None, 0))(STACKED, normal(3, 2, 64, 32))["up"].shape, (2, 8, 32, 128))
    assert "the body of each jax.lax.scan" in found.policy
    assert "dot_general, float32[64, 128]" in found.policy
    assert "operations added: " in str(found)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "choice",
    [
        Choice((0, 1000), 1, "nothing_saveable"),
        Choice((0, 20, 40, 60, 1000), 3, tied=True),
        Choice((0, 20, 40, 60, 1000), 4, "dots_saveable"),
        Choice(tuple(range(100)), 99, tied=True),
        Choice(tuple(range(100)), 99, bodies=True, chunked=True),
        Choice((0, 1, 2, 1000), 3, frozenset({"1/0.0", "1.0", "9.0", "20.0"}), bodies=True),
    ],
)
def test_regions_give_the_same(choice: Choice) -> None:
    def chosen(function: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            traced = _traced(function, args, kwargs, 0)
            ends = tuple(k for k in choice.bounds if k < len(traced.eqns))
            return _run(traced, choice._replace(bounds=(*ends, len(traced.eqns))), args, kwargs)

        return run

    args, how = (LAYERS, normal(3, 8, 16)), {"key": jax.random.key(7), "name": "net"}
    step = partial(jax.jit, static_argnames="name")
    expected = step(jax.value_and_grad(layered, has_aux=True))(*args, **how)
    close(step(jax.value_and_grad(chosen(layered), has_aux=True))(*args, **how), expected)
    whole = jax.jit(jax.value_and_grad(scanned))(STACKED, normal(3, 4, 32))
    close(jax.jit(jax.value_and_grad(chosen(scanned)))(STACKED, normal(3, 4, 32)), whole)


def test_second_derivatives_and_gradients_of_what_is_closed_over() -> None:
    def net(w: Any, x: Any) -> Any:
        for _ in range(4):
            x = jnp.tanh(x @ w) + x
        return (x**2).mean()

    def chosen(w: Any, x: Any) -> Any:
        traced = _traced(net, (w, x), {}, 0)
        choice = Choice((0, 6, len(traced.eqns)), 1, frozenset({"3.0"}), tied=True)
        return _run(traced, choice, (w, x), {})

    def derivatives(function: Any) -> Any:
        curved = lambda w, x: jax.jvp(lambda w: jax.grad(function)(w, x), (w,), (w,))  # noqa: E731
        outside = jax.grad(lambda scale, w, x: (lambda x: function(w * scale, x))(x * scale))
        return jax.jit(lambda w, x: (curved(w, x), outside(2.0, w, x)))(normal(1, 8, 8), normal(2, 4, 8))

    close(derivatives(chosen), derivatives(net))


def test_regions_end_where_little_goes_across() -> None:
    def narrow(x: Any) -> Any:
        for _ in range(3):
            x = jnp.tanh(jnp.sin(jnp.tile(x, 64)) * 2).reshape(64, -1).sum(0)
        return x

    traced = Traced(narrow, [normal(0, 4)], [0])
    across = {k: eqn.outvars[0].aval.size for k, eqn in enumerate(traced.eqns)}
    assert [across[bound - 1] for bound in traced.even(3, [1] * len(traced.eqns))[1:-1]] == [4, 4]


def test_balanced_regions_hold_the_fewest_bytes() -> None:
    def net(weights: Any, x: Any) -> Any:
        first = jnp.tanh(x @ weights[0])
        for w in weights[1:]:
            x = jnp.sin(x @ w[:4]) @ w[4:].T
        return (x * first[:, :4]).sum()

    widths = (40, 6, 12, 3, 24)
    traced = Traced(net, [[normal(k, 8 if k else 4, width) for k, width in enumerate(widths)], normal(9, 2, 4)], [0])
    sizes = [sum(variable.aval.size * 4 for variable in eqn.outvars) for eqn in traced.eqns]
    made = {variable: k for k, eqn in enumerate(traced.eqns) for variable in eqn.outvars}
    reads = [
        (made[v], k) for k, eqn in enumerate(traced.eqns) for v in eqn.invars if not hasattr(v, "val") and v in made
    ]
    saved = [size * (k % 7 == 0) for k, size in enumerate(sizes)]
    again = [size - other for size, other in zip(sizes, saved, strict=True)]

    def held(bounds: tuple[int, ...]) -> int:
        """What regions save and are given, and what the one computes again that needs the most."""
        most = below = 0
        for low, high in pairwise(bounds):
            below += sum(saved[low:high])
            most = max(most, below + sum(again[low:high]))
            below += sum(sizes[k] for k in {k for k, reader in reads if low <= k < high <= reader})
        return most

    count = len(traced.eqns)
    cuts = [held((0, *inner, count)) for n in range(5) for inner in combinations(range(1, count), n)]
    assert held(traced.balanced(again, saved)) <= min(cuts) * 1.02 < held(traced.whole) * 0.8


def test_layers_are_found() -> None:
    def net(weights: Any, x: Any) -> Any:
        x = jnp.cos(x) * 3
        for w in weights:
            x = x + jnp.tanh(x @ w)
        return (x**2).sum()

    traced = Traced(net, [[normal(k, 4, 4) for k in range(3)], normal(9, 2, 4)], [0])
    made = [traced.eqns[bound - 1].primitive.name for bound in traced.layers()[1:-1]]
    assert made == ["mul", "add", "add", "add"]
    assert Traced(jnp.cos, [normal(9, 2, 4)], [0]).layers() == (0, 1)


def test_what_spares_most_for_a_byte_comes_first() -> None:
    def net(w: Any, v: Any, x: Any) -> Any:
        narrow, wide = jnp.exp(x @ w), jnp.sin(x @ v)
        return (narrow.sum() * wide * wide).sum()

    leaves = [normal(1, 64, 2), normal(2, 64, 128), normal(3, 8, 64)]
    traced = Traced(net, leaves, [0, 1])
    described = [traced.described(value.names[0]).partition(": ")[2] for value in worthy(traced)]
    # exp reads its own result, which has no name: its argument is as good as it
    assert described[:3] == ["dot_general, float32[8, 128]", "dot_general, float32[8, 2]", "reduce_sum, float32[]"]
    assert "exp, float32[8, 2]" not in described


def test_a_scan_is_in_a_region_and_saves_in_its_body() -> None:
    def net(weights: Any, x: Any) -> Any:
        for w in weights:
            x = jax.lax.scan(lambda h, x, w=w: (jnp.tanh(h @ w + x),) * 2, x[0], jnp.sin(x * 3) @ w)[1]
        return (x**2).mean()

    leaves = [[normal(k, 8, 8) for k in range(3)], normal(9, 5, 4, 8)]
    traced = _traced(net, leaves, {}, 0)
    bounds = (0, *(k + 1 for k in traced.scans), len(traced.eqns))
    everything = frozenset(name for value in worthy(traced) for name in value.names)

    def dots(saved: frozenset[str]) -> int:
        choice = Choice(bounds, len(bounds) - 1, saved, tied=True)
        run = jax.value_and_grad(lambda *args: _run(traced, choice, args, {}))
        close(jax.jit(run)(*leaves), jax.jit(jax.value_and_grad(net))(*leaves))
        return str(jax.make_jaxpr(run)(*leaves)).count("dot_general[")

    plain = str(jax.make_jaxpr(jax.value_and_grad(net))(*leaves)).count("dot_general[")
    assert dots(everything) == plain
    assert dots(frozenset(name for name in everything if "/" not in name)) == plain + len(traced.scans)


def test_results_of_one_equation_are_saved_together() -> None:
    def net(w: Any, x: Any) -> Any:
        q, k, v = jnp.split(x @ w, 3, -1)
        return ((q @ k.T) @ v).sum()

    traced = Traced(net, [normal(1, 64, 48), normal(3, 8, 64)], [0])
    values = worthy(traced)
    assert values[0].bytes == 8 * 48 * 4
    saved = frozenset(name for value in values for name in value.names)
    choice = Choice((0, len(traced.eqns)), 1, saved)
    step = jax.make_jaxpr(jax.grad(lambda *leaves: traced.results(choice, leaves)[0]))
    dots = str(step(normal(1, 64, 48), normal(3, 8, 64))).count("dot_general[")
    assert dots == 3 + 5  # in backward none again, and no gradient of x


def test_backward_is_tied_where_gradients_go() -> None:
    traced = Traced(lambda w, x, y: ((jnp.tanh(x @ w) @ w - y) ** 2).sum(), [normal(1, 8, 8)] * 3, [0])
    middle = next(k for k, eqn in enumerate(traced.eqns) if eqn.primitive.name == "tanh")
    choice = Choice((0, middle, len(traced.eqns)), 1, tied=True)
    made = jax.make_jaxpr(lambda *leaves: traced.results(choice, leaves))(*[normal(1, 8, 8)] * 3)
    barriers = [len(eqn.invars) for eqn in made.eqns if eqn.primitive.name == "optimization_barrier"]
    assert barriers == [1, 2]  # w, and then tanh's argument too; neither x nor y


def test_loops_count_as_often_as_they_run() -> None:
    args = (STACKED, normal(3, 64, 32))

    def unrolled(weights: Any, x: Any) -> Any:
        for k in range(8):
            x = x + jax.nn.gelu(x @ weights["up"][k]) @ weights["down"][k]
        return (x**2).mean()

    looped, plain = (costs.of_compiled(jax.jit(each).lower(*args).compile()) for each in (scanned, unrolled))
    assert looped == pytest.approx(plain, rel=0.02)
    assert sum(map(costs.of_equation, Traced(scanned, [*args], []).eqns)) == pytest.approx(plain, rel=0.05)


def test_the_best_that_was_found_stays() -> None:
    seen: list[int] = []

    def told(tried: Any) -> None:
        seen.append(tried.temporaries)
        if len(seen) == 3:
            raise KeyboardInterrupt

    args = (STACKED, normal(3, 64, 32))
    found = memplan.jax.fit(scanned, "50%", args=args, on_tried=told)
    assert found.interrupted
    assert len(found.tried) == 3
    assert found.after.temporaries <= found.budget
    seen.clear()
    with pytest.raises(KeyboardInterrupt):
        memplan.jax.fit(scanned, 1, args=args, on_tried=told)
    with pytest.raises(memplan.InfeasibleError, match="no choice of regions was found"):
        memplan.jax.fit(scanned, "50%", args=args, time_limit=1e-9)


def test_seconds_of_a_step() -> None:
    args = (STACKED, normal(3, 4, 32))
    found = memplan.jax.fit(scanned, "100%", args=args)
    assert all(0 < seconds < 1 for seconds in found.seconds(*args))


def test_what_fits_stays_as_it_is() -> None:
    args = (STACKED, normal(3, 64, 32))
    same = memplan.jax.fit(scanned, "1GiB", args=args)
    assert same.after == same.before
    assert same.added_flops == 0
    assert same.policy == "as it is"


def test_bad_budgets_and_arguments() -> None:
    with pytest.raises(ValueError, match="budget"):
        memplan.jax.fit(scanned, "a lot", args=(STACKED, normal(3, 64, 32)))
    with pytest.raises(ValueError, match="compilations must be >= 1"):
        memplan.jax.fit(scanned, "60%", args=(STACKED, normal(3, 64, 32)), compilations=0)
    with pytest.raises(memplan.errors.SourceError, match="the gradient of the function does not compile: TypeError"):
        memplan.jax.fit(scanned, "60%", args=(STACKED, normal(3, 64, 31)))


def test_what_cannot_fit_is_refused() -> None:
    with pytest.raises(
        memplan.InfeasibleError, match="no choice of regions was found whose temporaries fit 1 byte"
    ) as caught:
        memplan.jax.fit(scanned, 1, args=(STACKED, normal(3, 64, 32)), compilations=2)
    assert not caught.value.proven


def test_regions_of_a_few_bytes_are_balanced_too() -> None:
    traced = Traced(lambda x: jnp.sin(jnp.cos(jnp.tanh(x))).sum(), [normal(0, 4)], [0])
    few = [1] + [0] * (len(traced.eqns) - 1)
    assert traced.balanced(few, few)[-1] == len(traced.eqns)
