"""From torch to a graph dict: an nn.Module with arguments, an fx.GraphModule, an ExportedProgram, a .pt2 file.

The source is run once with fake tensors, which have sizes and no data: a model of any size is imported
without its weights being read or allocated, and tensors are views of one another where torch itself makes
them so. torch is imported when it is needed, never by importing this module.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ... import calls
from ...errors import SourceError, UnsupportedError
from ..installed import names_of_torch, require_torch, silenced

if TYPE_CHECKING:
    from torch import fx

    from .listening import Listener

_ONE_AT_A_TIME = threading.RLock()  # torch keeps hooks, warnings and the stance of its compiler for all threads
_WHAT = "importing from torch"
_ACCEPTED = "a torch.nn.Module, a torch.fx.GraphModule or a torch.export.ExportedProgram"


def accepts(source: object) -> bool:
    """Whether `import_torch` takes this kind of object; does not import torch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return False
    return isinstance(source, (torch.nn.Module, torch.export.ExportedProgram))


def import_torch(
    source: Any,
    *,
    args: tuple[Any, ...] | list[Any] = (),
    kwargs: Mapping[str, object] | None = None,
    train: bool = False,
    dims: Mapping[str, int] | None = None,
    inplace_ops: Collection[str] = (),
    listener: Listener | None = None,
    device: str | None = None,
    optimizer: Any = None,
    keep_gradients: bool = False,
    kernels: bool = False,
) -> dict[str, Any]:
    """Import a torch model as a graph dict, with sizes in bytes; options are those of `memplan.capture`.

    A double of a module runs: the module is as it was at any time, and other threads may use it. Parameters, buffers
    and constants are weights, and so are the states of an optimizer (`fc.weight.exp_avg`). Tensors among the arguments
    are inputs.
    `outputs` are the tensors of the result and, of an exported program, the buffers that it updates; with train the
    loss and the gradients of the parameters (`grad.fc.weight`); with an optimizer the loss, and with `keep_gradients`
    the gradients. What ops may share is optional: outputs written over inputs, the parts of a cat or stack, and copies
    of what lies in memory as they do, unless one of the two is mutated later.

    A `listener` hears of all calls and tensors, see `listening`. With `kernels`, what kernels of the CPU are known to
    allocate is the workspace of ops.

    SourceError: the model fails, a branch depends on data, or a size does of which neither `dims` nor code says how
    large it may be, a tensor is sparse, quantized or of a subclass with its own dispatch, a symbolic size has no
    number, or the step of the optimizer cannot be traced.
    """
    require_torch(_WHAT)
    call = calls.positional(args), calls.keywords(kwargs)
    if optimizer is not None and not train:
        raise TypeError("option optimizer needs train=True: its step follows the backward pass")
    if keep_gradients and optimizer is None:
        raise TypeError("option keep_gradients needs an optimizer; without one, gradients are outputs")
    training = {"train": train, "optimizer": optimizer, "keep_gradients": keep_gradients or optimizer is None}
    source = _unwrapped(source)
    if not accepts(source):
        raise TypeError(f"source must be {_ACCEPTED}, got {_kind_of(source)}")
    if kernels and (device is not None or not _is_module(source)):
        raise TypeError("option kernels applies to modules on the CPU: what other kernels allocate is not known")
    with _ONE_AT_A_TIME, names_of_torch(_WHAT), kernels_of(device):
        if kernels:
            training["kernels"] = True
        return _imported(source, *call, training, dict(dims or {}), {"inplace_ops": inplace_ops, "listener": listener})


def _is_module(source: Any) -> bool:
    """Whether a source is a module that runs as it is written."""
    import torch

    return isinstance(source, torch.nn.Module) and not isinstance(source, torch.fx.GraphModule)


def kernels_of(device: str | None) -> AbstractContextManager[None]:
    """Meanwhile, composite operators are taken apart as on a device."""
    if device != "cuda":
        return nullcontext()
    from .cuda import kernels_of_cuda

    return kernels_of_cuda()


def import_pt2(
    path: str | os.PathLike[str],
    *,
    train: bool = False,
    dims: Mapping[str, int] | None = None,
    inplace_ops: Collection[str] = (),
    trust: bool = False,
    listener: Listener | None = None,
    optimizer: Any = None,
    keep_gradients: bool = False,
) -> dict[str, Any]:
    """Import what torch.export.save wrote, as a graph dict; see `import_torch`.

    Weights stay unread unless there is a listener. torch.export.load runs what a file tells it to: unless it is
    trusted, it gets an archive without what it would unpickle or run, see `archive`.
    """
    require_torch(_WHAT)
    import torch

    with names_of_torch(_WHAT):
        from .archive import harmless
        from .vetting import Untrusted

    path = os.fspath(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no such file: {path}")
    try:
        with names_of_torch(_WHAT):
            archive = path if trust else harmless(path, weights=listener is not None)
        with silenced("torch.export"):
            program = torch.export.load(archive)
    except UnsupportedError:
        raise
    except SourceError as error:
        advice = "; trust=True (--trust) lets torch run it: only for files of people you trust"
        raise SourceError(f"{path}: {error}{advice if isinstance(error, Untrusted) else ''}") from error
    except Exception as error:
        first = str(error).strip().split("\n", 1)[0]
        reason = f"{type(error).__name__}: {first}"
        raise SourceError(f"{path}: torch.export.load cannot read it ({reason})") from error
    try:
        options: dict[str, Any] = {"dims": dims, "inplace_ops": inplace_ops, "listener": listener}
        return import_torch(program, train=train, optimizer=optimizer, keep_gradients=keep_gradients, **options)
    except (SourceError, TypeError, MemoryError):
        raise
    except Exception as error:  # a description of what no program is may fail anywhere
        raise SourceError(f"{path}: its program cannot be imported ({type(error).__name__}: {error})") from error


def _imported(
    source: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    training: dict[str, Any],
    dims: dict[str, int],
    how: dict[str, Any],
) -> dict[str, Any]:
    """The graph dict of a source; `training` and `how` are options of `import_module`."""
    import torch

    from . import inputs
    from .graph import import_graph, import_program, note_mode
    from .sized import import_sized
    from .symbols import Symbols

    program = isinstance(source, torch.export.ExportedProgram)
    if not program and not isinstance(source, torch.fx.GraphModule):
        return import_sized(source, args, kwargs, dims, **training, **how)
    note_mode(source.graph_module if program else source, training["train"])
    nodes = inputs.user_inputs(source) if program else inputs.placeholders(source)
    given = inputs.given_program_values if program else inputs.given_values
    values = given(source, args, kwargs) if args or kwargs else None
    symbols = Symbols(source.graph, _sizes(nodes, values, dims), source.range_constraints if program else None)
    if values is None:
        values = [inputs.meta_value(node, symbols) for node in nodes]
    if training["train"]:
        spec = source.call_spec.in_spec if program else inputs.in_spec(source)
        args, kwargs = inputs.call_of(values, spec)
        module = source.module() if program else source
        return import_sized(module, args, kwargs, symbols.unbacked(), **training, **how)
    return (import_program if program else import_graph)(source, values, symbols, **how)


def _sizes(nodes: list[fx.Node], values: list[Any] | None, dims: dict[str, int]) -> dict[str, int]:
    """The numbers that the caller gives to symbols: as dims, or by arguments."""
    from .inputs import sizes_given

    if values is None:
        return dims
    if dims:
        raise SourceError(f"dims: the arguments have the sizes; give args or dims, not both, got {dims}")
    return sizes_given(nodes, values)


def _unwrapped(source: Any) -> Any:
    """What torch.compile was given, if it made the source."""
    import torch

    if isinstance(source, torch.jit.ScriptModule):
        raise TypeError(f"source must be {_ACCEPTED}, got a torch.jit.ScriptModule: use what it was made from")
    if isinstance(source, torch.nn.Module) and type(source).__name__ == "OptimizedModule":
        from ..private import uncompiled

        return uncompiled(source)
    return source


def _kind_of(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__}: give an instance of it"
    return f"a {type(value).__module__}.{type(value).__qualname__}"
