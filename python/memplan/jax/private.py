"""All that memplan takes from JAX besides its documented interface, in one place.

`jaxpr_of` needs the equations of a jaxpr, which `jax.extend.core` documents; how an equation is run again is not
documented: `eqn.primitive.get_bind_params` and `bind`, as `jax.core.eval_jaxpr` uses them. Tried with jax 0.6 and 0.10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
from jax.extend import core

from ..errors import UnsupportedError

_JITTED = ("pjit", "jit")  # equations that call a jaxpr, and nothing else


def jaxpr_of(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, Any]:
    """The closed jaxpr of a function of arrays, calls of jitted functions written out; and the tree of its results."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    return flattened(closed), jax.tree.structure(shape)


def flattened(closed: Any) -> Any:
    """A closed jaxpr, calls of jitted functions written out."""
    if any(eqn.primitive.name in _JITTED for eqn in closed.jaxpr.eqns):
        return jax.make_jaxpr(lambda *args: evaluated(closed, args))(*closed.in_avals)
    return closed


def evaluated(closed: Any, args: Sequence[Any]) -> list[Any]:
    """The results of a closed jaxpr, calls of jitted functions written out."""
    jaxpr = closed.jaxpr
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args), strict=True))
    for eqn in jaxpr.eqns:
        run(eqn, known)
    return [value_of(variable, known) for variable in jaxpr.outvars]


def run(eqn: Any, known: dict[Any, Any]) -> None:
    """Run an equation; what it makes is known then."""
    given = [value_of(variable, known) for variable in eqn.invars]
    if eqn.primitive.name in _JITTED:
        made = evaluated(eqn.params["jaxpr"], given)
    else:
        made = bound(eqn, given)
    known.update(zip(eqn.outvars, made, strict=True))


def bound(eqn: Any, given: Sequence[Any]) -> list[Any]:
    """What an equation makes of other values."""
    try:
        params = eqn.primitive.get_bind_params(eqn.params)
    except AttributeError as error:
        raise UnsupportedError(f"jax {jax.__version__} lacks a name that memplan.jax.fit needs: {error}") from None
    functions, params = ([], params) if isinstance(params, dict) else params  # older versions give functions apart
    with _line_of(eqn):
        made = eqn.primitive.bind(*functions, *given, **params)
    return list(made) if eqn.primitive.multiple_results else [made]


def value_of(variable: Any, known: dict[Any, Any]) -> Any:
    return variable.val if is_literal(variable) else known[variable]


def is_literal(variable: Any) -> bool:
    return isinstance(variable, core.Literal)


def _line_of(eqn: Any) -> AbstractContextManager[None]:
    """In it, equations get the line of code of this one."""
    try:
        from jax._src import source_info_util

        context: AbstractContextManager[None] = source_info_util.user_context(eqn.source_info.traceback)
        return context
    except (ImportError, AttributeError):
        return nullcontext()


def place_of(eqn: Any) -> str:
    """The line of code that an equation comes from, as ``net.py:12 (loss)``; empty where this jax does not say it."""
    try:
        from jax._src import source_info_util

        text = str(source_info_util.summarize(eqn.source_info))
    except (ImportError, AttributeError):
        return ""
    return text.rpartition("/")[2]
