"""All private names of torch that memplan uses, grouped by the feature that needs them.

Public names do not say which bytes a view shows, which operator a graph calls, or what an op changed. Private ones do,
and any release of torch may change them. So they are imported here and nowhere else; those of torch.compile are in
`private_compiler.py`. If a release lacks a name, only the features that need it fail, and `memplan doctor` lists them.
Operators (`torch.ops`) are not listed: graphs name them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

from .installed import Wall

_WALL = Wall(__name__)

with _WALL.needed_by("reading graphs, which call operators"):
    from torch._ops import HigherOrderOperator as HigherOrderOperator
    from torch._ops import OperatorBase as OperatorBase
    from torch._ops import OpOverload as OpOverload
    from torch._ops import OpOverloadPacket as OpOverloadPacket
with _WALL.needed_by("tensors in lists, tuples and dicts, as torch.export takes them apart"):
    pytree = torch.utils._pytree
with _WALL.needed_by("taking apart the inputs of a graph module, and putting together its results"):
    PyTreeCodeGen = torch.fx.graph._PyTreeCodeGen
    PyTreeInfo = torch.fx.graph._PyTreeInfo
with _WALL.needed_by("recording what the CUDA allocator does"):
    record_memory_history: Callable[..., None] = torch.cuda.memory._record_memory_history
    dump_memory_snapshot: Callable[[str], None] = torch.cuda.memory._dump_snapshot
with _WALL.needed_by("the names of functions that are no operators"):
    qualified_name: Callable[[Any], str] = torch.fx.node._get_qualified_name
with _WALL.needed_by("traces without data"):
    from torch._subclasses.fake_tensor import DataDependentOutputException as DataDependentOutputException
    from torch._subclasses.fake_tensor import DynamicOutputShapeException as DynamicOutputShapeException
    from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
    from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
    from torch._subclasses.fake_tensor import UnsupportedOperatorException as UnsupportedOperatorException
with _WALL.needed_by("watching each operator as it runs"):
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
with _WALL.needed_by("making tensors of our own while operators are watched"):
    disable_current_modes = torch.utils._python_dispatch._disable_current_modes
with _WALL.needed_by("the module to which an op of backward belongs"):
    current_autograd_node = torch._C._current_autograd_node
    get_sequence_nr: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
with _WALL.needed_by("batch normalization layers"):
    NormBase = torch.nn.modules.batchnorm._NormBase
with _WALL.needed_by("the memory format of a result"):
    from torch._prims_common import suggest_memory_format as suggest_memory_format
with _WALL.needed_by("the kernel that a convolution calls"):
    select_conv_backend = torch._C._select_conv_backend
with _WALL.needed_by("whether an operator has a kernel, and whether that kernel is its own"):
    dispatch_has_kernel = torch._C._dispatch_has_kernel
    dispatch_has_kernel_for = torch._C._dispatch_has_kernel_for_dispatch_key
    dispatch_has_computed_kernel_for = torch._C._dispatch_has_computed_kernel_for_dispatch_key
with _WALL.needed_by("checks of sizes that are known only at run time"):
    torch_check: Callable[..., None] = torch._check
    assert_true: Callable[..., None] = torch._assert
with _WALL.needed_by("views that are conjugated or negated only when they are read"):
    neg_view = torch._neg_view
    set_conj = torch._C._set_conj
    set_neg = torch._C._set_neg
with _WALL.needed_by("tensors without memory, as other libraries make them"):
    has_storage: Callable[[Tensor], bool] = torch._C._has_storage
with _WALL.needed_by("casts of autocast, as nodes of a graph"):
    enter_autocast: Callable[..., Any] = torch.amp.autocast_mode._enter_autocast
    exit_autocast: Callable[..., None] = torch.amp.autocast_mode._exit_autocast
with _WALL.needed_by("logits that are computed in pieces"):
    make_wrapper_subclass = torch.Tensor._make_wrapper_subclass
    DisableTorchFunctionSubclass: Any = torch._C.DisableTorchFunctionSubclass
with _WALL.needed_by("calling kernels with autocast off, as torch.compile does"):
    DisableAutocast: Any = torch._C._DisableAutocast
with _WALL.needed_by("CTC losses with known lengths"):
    ctc_loss_of_kernel: Callable[..., tuple[Tensor, ...]] = torch._ctc_loss
with _WALL.needed_by("composite operators, run by torch's own decomposition"):
    _COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
with _WALL.needed_by("updates of parameters after the backward pass"):
    after_backward: Callable[[Callable[[], Any]], None] = torch.autograd.Variable._execution_engine.queue_callback
with _WALL.needed_by("whether a write made a saved tensor invalid"):
    _VERSION = torch.Tensor._version
with _WALL.needed_by("the tensor that a view shows"):
    _BASE = torch.Tensor._base
    _IS_VIEW = torch.Tensor._is_view
with _WALL.needed_by("which tensors share bytes"):
    _CDATA = torch.UntypedStorage._cdata

# attributes that an object may have or lack
REGISTERS = ("_parameters", "_buffers", "_modules")  # of a module: its own parts, by name
STEP_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")  # of an optimizer: what runs around a step
STEPPED = "_opt_called"  # of an optimizer: schedulers of learning rates ask whether it stepped
SCALES_ITSELF = "_step_supports_amp_scaling"  # of an optimizer: gradients may still be scaled
TOTAL_NORM = "_get_total_norm"  # of torch.nn.utils.clip_grad: the norm of all gradients


def schema_of(operator: Any) -> Any:
    """The schema of an operator; None if `operator` is no operator."""
    return getattr(operator, "_schema", None)


def packet_of(operator: Any) -> Any:
    """All overloads of an operator; the argument itself if it is no operator."""
    return getattr(operator, "_overloadpacket", operator)


def overload_name_of(operator: OpOverload) -> str:
    """Which overload of its operator this is."""
    return operator._overloadname


def in_parts(operator: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Run a composite operator by torch's own decomposition, and return its result."""
    return operator._op_dk(_COMPOSITE, *args, **kwargs)  # type: ignore[no-any-return]


def destroy(library: torch.library.Library) -> None:
    """Take back the kernels that a library registered."""
    library._destroy()  # type: ignore[no-untyped-call]


def storage_key(storage: torch.UntypedStorage) -> int:
    """A key that all Python objects of one storage have in common."""
    return int(storage._cdata)


def version_of(tensor: Tensor) -> int:
    """How often a tensor, or a tensor that shares its bytes, was written to."""
    return tensor._version


def base_of(tensor: Tensor) -> Tensor:
    """The tensor that a view shows; the tensor itself if it is no view."""
    base = tensor._base if tensor._is_view() else tensor
    assert base is not None
    return base


def parameters_of(module: torch.nn.Module) -> dict[str, Any]:
    """The module's own parameters, which may be written to."""
    return module._parameters


def buffers_of(module: torch.nn.Module) -> dict[str, Any]:
    """The module's own buffers, which may be written to."""
    return module._buffers


def modules_of(module: torch.nn.Module) -> dict[str, Any]:
    """The module's own children, which may be written to."""
    return module._modules


def uncompiled(module: Any) -> Any:
    """The module that torch.compile wrapped; the module itself if it is not wrapped."""
    return getattr(module, "_orig_mod", module)


def is_compiled(module: torch.nn.Module) -> bool:
    """Whether torch.compile made a module, or its forward."""
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None


def traced_sizes(shape_env: Any) -> Mapping[Any, Any]:
    """The sizes that symbols had when a graph was traced."""
    found: Any = getattr(shape_env, "backed_var_to_val", None)  # "var_to_val" up to torch 2.12
    return found if found is not None else getattr(shape_env, "var_to_val", {})


def left_alone(attributes: dict[str, Any]) -> Any:
    """The original function that a wrapper of `torch.compiler.disable` holds, found by the wrapper's attributes.

    None if there is none.
    """
    return attributes.get("_torchdynamo_orig_callable")


def is_begun(kind: str) -> bool:
    """Whether anything has run on devices of a kind, such as "cuda"."""
    return bool(getattr(getattr(torch, kind, None), "_initialized", False))


def codegen_of(graph: fx.Graph) -> Any:
    """The object that writes the Python code of a graph, and knows how its inputs are put together."""
    return graph._codegen


def sequence_of(node: torch.autograd.graph.Node) -> int:
    """The sequence number that links a backward node to its forward op."""
    return node._sequence_nr()


def mark_wrapped(step: Any) -> None:
    """Mark a step function as already wrapped by a scheduler of learning rates."""
    step._wrapped_by_lr_sched = True


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise _WALL.missing(name)
