"""The options of functions, for type checkers and editors: ``python -m memplan.options`` writes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from .. import _core


class CaptureOptions(TypedDict, total=False):
    """Of `memplan.capture`."""

    args: Sequence[Any] | Mapping[str, Any]
    kwargs: Mapping[str, Any] | None
    train: bool
    dims: Mapping[str, Any] | None
    values: Mapping[str, Any] | None
    inclusive: bool
    blocks: Mapping[str, Any] | None
    inplace_ops: Collection[str]
    overlap: bool | Literal["tflite-micro"]
    signature: str | None
    keep_alive: Collection[str]
    trust: bool
    device: Literal["cuda"] | None
    kernels: bool | None
    optimizer: Any
    keep_gradients: bool


class PlanOptions(TypedDict, total=False):
    """Of `memplan.plan`."""

    args: Sequence[Any] | Mapping[str, Any]
    kwargs: Mapping[str, Any] | None
    train: bool
    dims: Mapping[str, Any] | None
    values: Mapping[str, Any] | None
    inclusive: bool
    blocks: Mapping[str, Any] | None
    inplace_ops: Collection[str]
    overlap: bool | Literal["tflite-micro"]
    signature: str | None
    keep_alive: Collection[str]
    trust: bool
    device: Literal["cuda"] | None
    kernels: bool | None
    optimizer: Any
    keep_gradients: bool
    place: Collection[str]
    alignment: int | str
    inplace: bool
    disable_inplace_ops: Collection[str]
    donate: Collection[str]
    zero_copy: bool
    pin: Mapping[str, Any] | None
    reserved: Sequence[Sequence[Any]]
    together: Sequence[Sequence[Any]]
    contiguous: Sequence[Sequence[str]]
    apart: Sequence[Sequence[str]]
    exclude: Collection[str]
    exclusive: Sequence[Sequence[Sequence[str]]]
    order: str
    barrier: Collection[str]
    capacity: int | str | None
    pools: Sequence[Any]
    accesses: Mapping[str, int] | Sequence[int] | None
    price: Sequence[tuple[str, str, int]]
    keep: Any
    start: Any
    time_limit: float | None
    seed: int
    threads: int
    on_improvement: Callable[[Any], object] | None
    on_order: Callable[[_core.OrderProgress], object] | None
    on_interrupt: Literal["keep", "raise"]


class FitOptions(TypedDict, total=False):
    """Of `memplan.fit`."""

    args: Sequence[Any] | Mapping[str, Any]
    kwargs: Mapping[str, Any] | None
    train: bool
    dims: Mapping[str, Any] | None
    values: Mapping[str, Any] | None
    blocks: Mapping[str, Any] | None
    inplace_ops: Collection[str]
    signature: str | None
    keep_alive: Collection[str]
    trust: bool
    device: Literal["cuda"] | None
    kernels: bool | None
    optimizer: Any
    keep_gradients: bool
    place: Collection[str]
    alignment: int | str
    inplace: bool
    disable_inplace_ops: Collection[str]
    donate: Collection[str]
    zero_copy: bool
    barrier: Collection[str]
    time_limit: float | None


class ReorderOptions(TypedDict, total=False):
    """Of `memplan.reorder`."""

    args: Sequence[Any] | Mapping[str, Any]
    kwargs: Mapping[str, Any] | None
    train: bool
    dims: Mapping[str, Any] | None
    values: Mapping[str, Any] | None
    inclusive: bool
    blocks: Mapping[str, Any] | None
    inplace_ops: Collection[str]
    overlap: bool | Literal["tflite-micro"]
    signature: str | None
    keep_alive: Collection[str]
    trust: bool
    device: Literal["cuda"] | None
    kernels: bool | None
    optimizer: Any
    keep_gradients: bool
    place: Collection[str]
    alignment: int | str
    inplace: bool
    disable_inplace_ops: Collection[str]
    donate: Collection[str]
    zero_copy: bool
    barrier: Collection[str]
    time_limit: float | None
    on_order: Callable[[_core.OrderProgress], object] | None


class OrderBoundOptions(TypedDict, total=False):
    """Of `memplan.order_bound`."""

    args: Sequence[Any] | Mapping[str, Any]
    kwargs: Mapping[str, Any] | None
    train: bool
    dims: Mapping[str, Any] | None
    values: Mapping[str, Any] | None
    inclusive: bool
    blocks: Mapping[str, Any] | None
    inplace_ops: Collection[str]
    overlap: bool | Literal["tflite-micro"]
    signature: str | None
    keep_alive: Collection[str]
    trust: bool
    device: Literal["cuda"] | None
    kernels: bool | None
    optimizer: Any
    keep_gradients: bool
    place: Collection[str]
    inplace: bool
    disable_inplace_ops: Collection[str]
    donate: Collection[str]
    zero_copy: bool


class CompareOptions(TypedDict, total=False):
    """Of `memplan.compare`."""

    args: Sequence[Any] | Mapping[str, Any]
    kwargs: Mapping[str, Any] | None
    train: bool
    dims: Mapping[str, Any] | None
    values: Mapping[str, Any] | None
    inclusive: bool
    blocks: Mapping[str, Any] | None
    inplace_ops: Collection[str]
    overlap: bool | Literal["tflite-micro"]
    signature: str | None
    keep_alive: Collection[str]
    trust: bool
    device: Literal["cuda"] | None
    kernels: bool | None
    optimizer: Any
    keep_gradients: bool
    place: Collection[str]
    alignment: int | str
    inplace: bool
    disable_inplace_ops: Collection[str]
    donate: Collection[str]
    zero_copy: bool
    pin: Mapping[str, Any] | None
    reserved: Sequence[Sequence[Any]]
    together: Sequence[Sequence[Any]]
    contiguous: Sequence[Sequence[str]]
    apart: Sequence[Sequence[str]]
    exclude: Collection[str]
    exclusive: Sequence[Sequence[Sequence[str]]]
    barrier: Collection[str]
    capacity: int | str | None
    pools: Sequence[Any]
    accesses: Mapping[str, int] | Sequence[int] | None
    price: Sequence[tuple[str, str, int]]
    keep: Any
    start: Any
    seed: int
    threads: int
    on_improvement: Callable[[Any], object] | None
    on_order: Callable[[_core.OrderProgress], object] | None


class PlanManyOptions(TypedDict, total=False):
    """Of `memplan.plan_many`."""

    args: Sequence[Any] | Mapping[str, Any]
    kwargs: Mapping[str, Any] | None
    train: bool
    dims: Mapping[str, Any] | None
    values: Mapping[str, Any] | None
    inclusive: bool
    blocks: Mapping[str, Any] | None
    inplace_ops: Collection[str]
    overlap: bool | Literal["tflite-micro"]
    signature: str | None
    keep_alive: Collection[str]
    trust: bool
    device: Literal["cuda"] | None
    kernels: bool | None
    optimizer: Any
    keep_gradients: bool
    place: Collection[str]
    alignment: int | str
    inplace: bool
    disable_inplace_ops: Collection[str]
    donate: Collection[str]
    zero_copy: bool
    pin: Mapping[str, Any] | None
    reserved: Sequence[Sequence[Any]]
    together: Sequence[Sequence[Any]]
    contiguous: Sequence[Sequence[str]]
    apart: Sequence[Sequence[str]]
    exclude: Collection[str]
    exclusive: Sequence[Sequence[Sequence[str]]]
    order: str
    barrier: Collection[str]


class VerifyOptions(TypedDict, total=False):
    """Of `memplan.verify`."""

    args: Sequence[Any] | Mapping[str, Any]
    kwargs: Mapping[str, Any] | None
    train: bool
    dims: Mapping[str, Any] | None
    values: Mapping[str, Any] | None
    inclusive: bool
    blocks: Mapping[str, Any] | None
    inplace_ops: Collection[str]
    overlap: bool | Literal["tflite-micro"]
    signature: str | None
    keep_alive: Collection[str]
    trust: bool
    device: Literal["cuda"] | None
    kernels: bool | None
    optimizer: Any
    keep_gradients: bool
