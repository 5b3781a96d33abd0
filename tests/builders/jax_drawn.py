"""Functions of JAX drawn at random: matrix products, elementwise ops, reductions, loops, branches, gathers, updates."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

ROWS, COLUMNS = (2, 4, 8), (3, 4, 16)
Made = Callable[..., Any]


def drawn(seed: int) -> tuple[Made, tuple[Any, ...]]:
    """A function to a number, of a list of weights and an array, with its arguments."""
    draw = random.Random(seed)
    rows, columns = draw.choice(ROWS), draw.choice(COLUMNS)
    steps = [_step(draw) for _ in range(draw.randint(2, 9))]
    keys = jax.random.split(jax.random.key(seed), 4)
    weights = [jax.random.normal(key, (columns, columns)) * 0.3 for key in keys[:3]]
    earlier = [draw.randrange(k + 1) for k in range(len(steps))]

    def function(weights: list[Any], x: Any) -> Any:
        made = [x]
        for step, back in zip(steps, earlier, strict=True):
            made.append(step(weights, made[-1], made[back]))
        return (made[-1] ** 2).mean() + made[draw_from % len(made)].sum() * 0.01

    draw_from = draw.randrange(100)
    return function, (weights, jax.random.normal(keys[3], (rows, columns)))


def _step(draw: random.Random) -> Made:
    """From an array, and one that was made before, to another of the same shape."""
    name = draw.choice([*_STEPS])
    which, other = draw.randrange(3), draw.randrange(3)
    inner = [_STEPS[draw.choice(_PLAIN)] for _ in range(2)]
    return lambda weights, x, y: _STEPS[name](weights[which], weights[other], x, y, inner)


def _scan(w: Any, v: Any, x: Any, y: Any, inner: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        made = inner[0](w, v, carry, y, inner)
        return made, (made * row).sum(0)

    last, rows = jax.lax.scan(body, x, jnp.stack([x, y, x * y, x - y]))
    return last + rows.mean(0)


def _cond(w: Any, v: Any, x: Any, y: Any, inner: Any) -> Any:
    branches = [lambda x, each=each: each(w, v, x, y, inner) for each in inner]
    return jax.lax.cond(x.sum() > 0, *branches, x)


def _loop(w: Any, v: Any, x: Any, y: Any, inner: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda k, x: inner[0](w, v, x, y, inner) + k * 0.1, x)


def _updated(w: Any, v: Any, x: Any, y: Any, inner: Any) -> Any:
    return jax.lax.dynamic_update_slice(x, y[:1] * 2, (jnp.argmax(y[:, 0]) % x.shape[0], 0))


def _of_rows(w: Any, v: Any, x: Any, y: Any, inner: Any) -> Any:
    return jax.vmap(lambda row, other: jnp.tanh(row @ w) * other.max())(x, y)


def _gradient(w: Any, v: Any, x: Any, y: Any, inner: Any) -> Any:
    return jax.grad(lambda x: jnp.sin(inner[0](w, v, x, y, inner)).sum())(x)


_STEPS: dict[str, Made] = {
    "product": lambda w, v, x, y, inner: x @ w,
    "layer": lambda w, v, x, y, inner: y + jax.nn.gelu(x @ w) @ v,
    "elementwise": lambda w, v, x, y, inner: jnp.sin(x) * y + jnp.exp(-(x**2)),
    "reduction": lambda w, v, x, y, inner: (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(y.var() + 1e-3),
    "softmax": lambda w, v, x, y, inner: jax.nn.softmax(x @ y.T) @ x,
    "gather": lambda w, v, x, y, inner: x[jnp.argsort(y[:, 0])] + x[::-1],
    "parts": lambda w, v, x, y, inner: jnp.concatenate([x[:1] @ w, y[1:]]),
    "select": lambda w, v, x, y, inner: jnp.where(x > y, x, jax.nn.relu(y)),
    "update": _updated,
    "rows": _of_rows,
    "scan": _scan,
    "cond": _cond,
    "loop": _loop,
    "gradient": _gradient,
}
_PLAIN = ("product", "layer", "elementwise", "reduction", "softmax", "gather", "parts", "select", "update")
