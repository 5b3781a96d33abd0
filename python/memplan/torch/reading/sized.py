"""A module whose sizes may depend on data: they are asked for, and the module is traced with numbers for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from ...errors import SourceError
from ..private import torch_check
from . import kernels
from .double import Double
from .fake import Fakes, depends_on_data, map_tensors, tensors_in
from .known import Known
from .late_sizes import LateSizes, advice
from .module import eager, import_module, run_nodes, weights_of
from .recorder import GraphRecorder
from .trace import ModulePaths, OpTrace


def import_sized(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dims: Mapping[str, int],
    **how: Any,
) -> dict[str, Any]:
    """The graph dict of a module, see `import_module`; `dims` are sizes that depend on data, by name.

    SourceError: one has no number, and code says of none that it may be the most.
    """
    if dims:
        return _with(LateSizes(dims), module, args, kwargs, how)
    try:
        return import_module(module, args, kwargs, **how)
    except SourceError as error:
        if error.__cause__ is None or not depends_on_data(error.__cause__):
            raise
        late = LateSizes({})
        completed = _asked(late, module, args, kwargs, how["train"])
        if not late.found:
            raise
        advised = SourceError(f"{error}; {advice(late.missing() or [*late.found.values()])}")
        if not completed or late.missing():
            raise advised from error.__cause__
    if how.get("listener") is not None:
        how["listener"].anew()
    try:
        return _with(late, module, args, kwargs, how)
    except SourceError as error:  # such as two that may not both be the most that each may be
        raise advised from error.__cause__


def _with(
    late: LateSizes, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], how: dict[str, Any]
) -> dict[str, Any]:
    if late.dims:
        _asked(late, module, args, kwargs, how["train"])
        late.check()
        if missing := late.missing():
            raise SourceError(f"sizes that depend on data without a number: {advice(missing)}")
    try:
        found = import_module(module, args, kwargs, late=late, **how)
    except SourceError as error:
        given = f", with dims={dict(late.dims)}" if late.dims else ""
        raise SourceError(f"{error}{given}") from error.__cause__
    if not isinstance(module, fx.GraphModule):  # its symbols have been spoken of
        late.told()
    return found


def _asked(
    late: LateSizes, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], train: bool
) -> bool:
    """Run forward with symbols for what depends on data; whether it came to its end."""
    state = weights_of(module)
    fakes = Fakes([*state.values(), *(t for _, t in tensors_in([args, kwargs]))], symbols=late.env)
    weights = {name: fakes(tensor, f"weight '{name}'") for name, tensor in state.items()}
    args, kwargs = map_tensors((args, dict(kwargs)), fakes, "args")
    known = None if isinstance(module, fx.GraphModule) else Known()
    if known is not None:
        known.begin(fakes)
    double = Double(module, weights, state)
    traced = double.module
    try:
        with fakes.running(), torch.set_grad_enabled(train), double.sharing(), eager(), _Asking(fakes, known, late):
            if isinstance(traced, fx.GraphModule):
                run_nodes(traced, args, kwargs, ModulePaths(traced))
            else:
                traced(*args, **kwargs)
    except Exception:  # it fails when it is traced too, which says why
        return False
    return True


class _Asking(OpTrace):  # type: ignore[no-untyped-call]
    """Runs operators with symbols, and notes those that make some."""

    def __init__(self, fakes: Fakes, known: Known | None, late: LateSizes) -> None:
        super().__init__(GraphRecorder(), fakes, str, known)
        self._sizes = late

    def _run(self, func: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if func is torch.ops.aten._assert_scalar.default and isinstance(args[0], torch.SymBool):
            torch_check(args[0])
            return None
        return self._sizes.asks(func, kernels.run(func, args, kwargs))

    def _record(self, called: Any, args: list[Any], kwargs: dict[str, Any], result: Any, anew: Any) -> None:
        """Nothing is recorded: sizes are no numbers yet."""
