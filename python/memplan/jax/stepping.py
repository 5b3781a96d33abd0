"""What a jitted function needs, as XLA's own memory analysis says it, and with other sizes of its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .. import calls
from ..errors import SourceError
from ..estimating.result import Estimate

_NOTE = "activations are the results that take no bytes of arguments; workspaces are the code of XLA"


def lowered(source: Any, args: Any, kwargs: Any) -> Any:
    """A jitted function before XLA compiles it; SourceError with the first line of what JAX says, if that fails."""
    given, named = calls.positional(args), calls.keywords(kwargs)
    with _explained():
        return source.lower(*given, **named)


def compiled(step: Any, options: Mapping[str, Any] | None = None) -> Any:
    """What is lowered compiles to, with these flags of XLA; SourceError as for `lowered`."""
    with _explained():
        return step.compile(compiler_options=None if options is None else dict(options))


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        first = next(iter(str(error).splitlines()), "")
        raise SourceError(
            f"the function does not compile with these arguments: {type(error).__name__}: {first}"
        ) from error


def estimate(source: Any, args: Any, kwargs: Any, *, device: str = "cpu", **how: Any) -> Estimate:
    """Bytes that XLA needs for a call. The function is compiled, not run; its arguments may be shapes.

    Parameters
    ----------
    source
        What `jax.jit` gives.
    device
        That for which the process compiles: "cuda" if it is a GPU.
    **how
        Options of networks that memplan trains itself: they are refused, as the function says what runs.

    Raises
    ------
    TypeError, ValueError
        An option that is not for functions of JAX; another device.
    SourceError
        The function does not compile with these arguments.
    """
    import jax

    for name, value in how.items():
        if value is not None and value is not False:
            raise TypeError(f"{name} does not apply to a function of jax.jit: it says itself what runs")
    here = "cuda" if jax.default_backend() in ("gpu", "cuda", "rocm") else "cpu"
    if device != here:
        raise ValueError(f"device={device!r}: this process compiles for {jax.default_backend()}")
    said = compiled(lowered(source, args, kwargs)).memory_analysis()
    if said is None:
        raise SourceError("the backend says nothing of the bytes that it needs")
    return Estimate(
        inputs=said.argument_size_in_bytes,
        activations=said.output_size_in_bytes - said.alias_size_in_bytes,
        temporaries=said.temp_size_in_bytes,
        workspaces=said.generated_code_size_in_bytes,
        device=device,
        notes=(_NOTE,),
    )


class Sized:
    """The arguments of a call with another size along some axes, as shapes."""

    def __init__(self, source: Any, args: Any, kwargs: Any, axes: Mapping[str, int] | None) -> None:
        try:
            self._call = inspect.signature(source).bind(*calls.positional(args), **calls.keywords(kwargs))
        except (TypeError, ValueError) as error:
            raise TypeError(f"args and kwargs must be those of the function: {error}") from None
        arrays = {name: tuple(value.shape) for name, value in self._call.arguments.items() if hasattr(value, "shape")}
        known = ", ".join(f"{name} {shape}" for name, shape in arrays.items()) or "none"
        if not isinstance(axes, Mapping) or not axes:
            example = "axes must be a mapping from names of arguments to an axis, as {'x': 0}"
            raise TypeError(f"{example}, got {axes!r}; the arrays among the arguments are: {known}")
        self._axes, sizes = dict(axes), {}
        for name, axis in self._axes.items():
            if name not in arrays:
                raise ValueError(f"axes names {name!r}, which is no array among the arguments; these are: {known}")
            rank = len(arrays[name])
            if not isinstance(axis, int) or isinstance(axis, bool) or not -rank <= axis < rank:
                raise ValueError(f"axes[{name!r}] must be an axis of {arrays[name]}, got {axis!r}")
            sizes[name] = arrays[name][axis]
        if len(set(sizes.values())) > 1:
            raise ValueError(f"axes must all have the same size, got {sizes}")
        self.now = max(1, next(iter(sizes.values())))

    def explained(self, needs: Callable[[int], int | None]) -> Callable[[int], int | None]:
        """What a size needs; an error says with which size the function compiles."""

        def explaining(size: int) -> int | None:
            try:
                return needs(size)
            except SourceError as error:
                if size == self.now:
                    raise
                grown = ", ".join(f"axis {axis} of {name!r}" for name, axis in self._axes.items())
                raise SourceError(
                    f"the function compiles with {self.now} at {grown}, not with {size}: {error}"
                ) from error

        return explaining

    def of(self, size: int) -> dict[str, Any]:
        """The arguments with this size."""
        import jax

        given = inspect.BoundArguments(self._call.signature, type(self._call.arguments)(self._call.arguments))
        for name, axis in self._axes.items():
            array = self._call.arguments[name]
            shape = list(array.shape)
            shape[axis] = size
            given.arguments[name] = jax.ShapeDtypeStruct(tuple(shape), array.dtype)
        return {"args": given.args, "kwargs": given.kwargs}
