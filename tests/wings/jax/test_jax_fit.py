"""`memplan.jax.fit`: the same results from a step that holds fewer bytes."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import memplan  # noqa: E402
from memplan.jax.budgets.regions import Choice, Traced  # noqa: E402


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
    found = memplan.jax.fit(scanned, "50%", args=shapes)
    assert found.budget == temporaries(scanned, *args) // 2
    assert found.after.temporaries == temporaries(found, *args) <= found.budget
    close(jax.jit(jax.value_and_grad(found))(*args), jax.jit(jax.value_and_grad(scanned))(*args))
    close(jax.vmap(jax.grad(found), (None, 0))(STACKED, normal(3, 2, 64, 32))["up"].shape, (2, 8, 32, 128))
    assert "around the body of each jax.lax.scan" in found.policy
    assert "operations added: " in str(found)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "choice",
    [
        Choice(1, 1, "nothing_saveable"),
        Choice(4, 3, "nothing_saveable"),
        Choice(4, 4, "dots_saveable"),
        Choice(100, 100, "nothing_saveable"),
        Choice(1, 0, "dots_saveable", bodies=True),
    ],
)
def test_regions_give_the_same(choice: Choice) -> None:
    from memplan.jax.budgets.cheapest import _chosen

    args, how = (LAYERS, normal(3, 8, 16)), {"key": jax.random.key(7), "name": "net"}
    expected = jax.value_and_grad(layered, has_aux=True)(*args, **how)
    close(jax.value_and_grad(_chosen(layered, choice), has_aux=True)(*args, **how), expected)
    whole = jax.value_and_grad(scanned)(STACKED, normal(3, 4, 32))
    close(jax.value_and_grad(_chosen(scanned, choice))(STACKED, normal(3, 4, 32)), whole)


def test_regions_end_where_little_goes_across() -> None:
    def narrow(x: Any) -> Any:
        for _ in range(3):
            x = jnp.tanh(jnp.sin(jnp.tile(x, 64)) * 2).reshape(64, -1).sum(0)
        return x

    traced = Traced(narrow, [normal(0, 4)])
    across = {k: eqn.outvars[0].aval.size for k, eqn in enumerate(traced.eqns)}
    assert [across[bound - 1] for bound in traced.bounds(3)[1:-1]] == [4, 4]


def test_what_fits_stays_as_it_is() -> None:
    args = (STACKED, normal(3, 64, 32))
    same = memplan.jax.fit(scanned, "1GiB", args=args)
    assert same.after == same.before
    assert same.added_flops == 0
    assert same.policy == "as it is"


def test_bad_budgets_and_arguments() -> None:
    with pytest.raises(ValueError, match="budget"):
        memplan.jax.fit(scanned, "a lot", args=(STACKED, normal(3, 64, 32)))
    with pytest.raises(memplan.errors.SourceError, match="the gradient of the function does not compile: TypeError"):
        memplan.jax.fit(scanned, "60%", args=(STACKED, normal(3, 64, 31)))


@pytest.mark.slow
def test_what_cannot_fit_is_refused() -> None:
    with pytest.raises(
        memplan.InfeasibleError, match="no choice of regions was found whose temporaries fit 1 byte"
    ) as caught:
        memplan.jax.fit(scanned, 1, args=(STACKED, normal(3, 64, 32)))
    assert not caught.value.proven
