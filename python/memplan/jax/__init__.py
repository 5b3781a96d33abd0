"""The wing of JAX: it reads what XLA has compiled, says which flags help, and brings a step within a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .wing import WING as WING
from .wing import require_jax

if TYPE_CHECKING:
    from .budgets import Fitted, Tried
    from .schedulers import Flags


def fit(
    function: Callable[..., Any],
    budget: int | str,
    *,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    compilations: int = 25,
    time_limit: float | None = None,
    on_tried: Callable[[Tried], object] | None = None,
) -> Fitted:
    """A function whose gradient is within a budget of XLA's temporaries, at the least cost that is found.

    The function is cut into regions that compute again what they do not save, by `jax.checkpoint`: layers, if it has
    some, parts for which backward holds few bytes, and bodies of scans. Values are saved first that spare the most
    operations for a byte. Backward ends with a region, gradients of its weights too, before it begins with the one
    before. XLA compiles each choice that is tried, under the flags of the process, and says what it needs. Nothing
    runs.

    Results and gradients are those of the function, up to rounding: XLA may fuse other ops.

    Parameters
    ----------
    function
        A function of arrays, in any pytrees, that `jax.value_and_grad` takes.
    budget
        Bytes of temporaries, as an integer or text such as "16GiB"; or a share of what the function as it is needs:
        "60%".
    args, kwargs
        Example arguments, or their shapes as `jax.ShapeDtypeStruct`.
    argnums, has_aux
        As for `jax.value_and_grad`.
    compilations
        How many choices are compiled at most, with the function as it is.
    time_limit
        Seconds after which no other choice is compiled.
    on_tried
        Is called with each choice that was compiled: the bytes and operations that XLA counts.

    Returns
    -------
    Fitted
        To be used in place of the function: ``jax.jit(jax.value_and_grad(fitted))``.

    Raises
    ------
    MissingDependencyError
        jax is not installed.
    InfeasibleError
        No choice that was tried is within the budget. The message says what the least one needs. It is no proof.
    KeyboardInterrupt
        Ctrl-C, before a choice was found that fits. After that, Ctrl-C ends the search, and keeps the best.
    SourceError
        The function does not compile with these arguments.
    TypeError, ValueError
        A bad budget or bad arguments.

    Notes
    -----
    Without memory-aware scheduling, XLA may start reruns early. On the CPU, set
    ``XLA_FLAGS=--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED`` for such scheduling, and
    ``--xla_disable_hlo_passes=cse_barrier_expander``, so that XLA does not remove reruns.
    """
    require_jax()
    from .budgets import fit

    return fit(
        function,
        budget,
        args=args,
        kwargs=kwargs,
        argnums=argnums,
        has_aux=has_aux,
        compilations=compilations,
        time_limit=time_limit,
        on_tried=on_tried,
    )


def flags(source: Any, *, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None) -> Flags:
    """What XLA needs for a function with other flags, which change the order of the ops.

    The function is compiled once for each row. Nothing runs. On CPUs, the flags are those of the scheduler for memory.
    On GPUs and TPUs, they are those of the scheduler that hides latency.

    Parameters
    ----------
    source
        A function of `jax.jit`.
    args, kwargs
        Its arguments, or their shapes as `jax.ShapeDtypeStruct`.

    Returns
    -------
    Flags
        ``print(found)`` shows them; ``jax.jit(f, compiler_options=found.rows[0].options)`` takes the best.

    Raises
    ------
    MissingDependencyError
        jax is not installed.
    SourceError
        The function does not compile with these arguments.
    """
    require_jax()
    from .schedulers import flags

    return flags(source, args, kwargs)
