"""The options of `memplan.plan` and its relatives: how to read, what shares bytes, where things lie, how to search.

Each is declared here and nowhere else. Functions, the command line, comparisons and the docs read them from here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..inplace_ops import checked as checked_types
from ..kinds import PLACED
from ..planning.orders import check_order
from ..sizes import budget_of, in_bytes
from . import written
from .checks import (
    blocks,
    boolean,
    by_name,
    callback,
    checked_place,
    device_of,
    integer,
    interrupting,
    names,
    overlapping,
    seconds,
    switch,
    text_of,
)
from .declaring import Flag, Record, documented, option

if TYPE_CHECKING:
    from .. import _core

RANGED = "dims in a range"  # as if it were an option


def _capacity(value: Any) -> Any:
    if value is not None:
        budget_of(value, "capacity")
    return value


@documented
@dataclass(frozen=True, kw_only=True)
class Reading(Record):
    """How a source is read."""

    args: Sequence[Any] | Mapping[str, Any] = option(
        (),
        """Example positional arguments for a torch source; only their shapes and dtypes matter. For ONNX, examples of
        the inputs in the model's order, or a dict by their names: symbolic dimensions get their sizes, and a small
        integer that sizes depend on counts as if it were in `values`.""",
    )

    kwargs: Mapping[str, Any] | None = option(
        None,
        """Example keyword arguments for a torch source, by name. For ONNX, examples of inputs, by name.""",
        by_name("kwargs", "{'mask': mask}"),
    )

    train: bool = option(
        False,
        """For a torch source: trace forward and backward jointly. The loss and the gradients are the outputs.""",
        switch("train"),
        flag=Flag(None, "of a .pt2 file: plan the forward and the backward pass together"),
    )

    dims: Mapping[str, Any] | None = option(
        None,
        """Sizes of symbolic dimensions, by name. Each needs a size, unless `args` have it; the error lists those
        without one. For ONNX, ``"x[2]"`` names any dimension of the input x. For torch, ``"u0"`` names a size that
        depends on data: see docs/formats.md. In `plan`, a size may be a range, as
        ``{"batch": (1, 64)}``: see docs/methods.md.""",
        by_name("dims", "{'batch': 8}"),
        flag=Flag(
            "NAME=N,…",
            "sizes of symbolic dimensions, such as batch=8 or batch=8,length=64, or a range such as batch=1:64",
            str,
            many=True,
            made=written.dims,
        ),
    )

    values: Mapping[str, Any] | None = option(
        None,
        """For an ONNX source: values of small inputs on which sizes depend, by name, as ``{"k": 5}``: of TopK, Range,
        Reshape, Slice, the condition of an If. The plan holds for these values alone.""",
        by_name("values", "{'k': 5}"),
        flag=Flag(
            "NAME=V,…",
            "of an .onnx file: the value of a small input on which sizes depend, such as k=5 or shape=2,3,4",
            str,
            many=True,
            made=written.values,
        ),
    )

    inclusive: bool = option(
        False,
        """For a .csv source: the end of a lifetime is the last step alive, not the step after it.""",
        switch("inclusive"),
        flag=Flag(None, "of a .csv file: ends of lifetimes are the last step alive"),
    )

    blocks: Mapping[str, Any] | None = option(
        None,
        """Which blocks of a memory snapshot: those of a ``"device"``, of a ``"stream"``, of the private ``"pool"`` with
        an id, as in ``{"device": 1}`` or ``{"pool": (0, 1)}``. A snapshot of several devices needs one.""",
        blocks,
        flag=Flag(
            "NAME=N,…",
            "of a memory snapshot: the blocks of device=N, of stream=N, or of a private pool=N:M",
            written.blocks,
        ),
    )

    inplace_ops: Collection[str] = option(
        (),
        """Types of ops that may write their first output over an input of as many bytes. "aten.add" stands for all
        types that begin with "aten.add." too. For ONNX and torch, these types are added to `INPLACE_OPS`, and the
        input must have the layout of the output. For graphs and graph dicts, they apply to ops that list no
        `inplace`.""",
        checked_types,
        flag=Flag(
            "TYPE,TYPE",
            "let ops of these types too write their output over an input; 'default' is the table of the importers",
            written.types,
        ),
    )

    overlap: bool | Literal["tflite-micro"] = option(
        True,
        """Let an output lie over an input that its op is still reading, if the graph says in which order the op's
        kernel reads and writes ("ordered"). "tflite-micro", for a .tflite source: the reference kernels of TFLite
        Micro run, as `memplan.tflite.kernels` lists them. False: no outputs lie so. None do in pools, in plans of
        several methods, and in ops that `fit` changes.""",
        overlapping,
        flag=Flag(
            "KERNELS",
            "the kernels that a .tflite file runs by, whose outputs may lie over inputs that they still read: "
            "tflite-micro; or 'no': no outputs of any file do",
            written.overlap,
        ),
    )

    signature: str | None = option(
        None,
        """For a .tflite source of several subgraphs: the one to plan, by the key of its signature, or by its own name.
        By default the first, which TFLite Micro runs. The subgraphs that its ops run count as workspaces of these
        ops. Other subgraphs are not read.""",
        lambda value: text_of(value, "signature"),
        flag=Flag(
            "NAME", "of a .tflite file of several subgraphs: the signature to plan (default: the first subgraph)", str
        ),
    )

    keep_alive: Collection[str] = option(
        (),
        """Names of tensors that are read after the run, besides the outputs: they live to its end, and nothing lies
        over them. In the graph of the plan, they are outputs, except inputs and weights.""",
        lambda value: names(value, "keep_alive"),
        flag=Flag("NAME,NAME", "tensors that are read after the run, besides the outputs: they live to its end"),
    )

    trust: bool = option(
        False,
        """For a .pt2 source. To read such a file, torch runs parts of it, as Python does with pickles. False: torch
        gets only parts that cannot run, and memplan refuses a file that needs more. True: torch reads the file as it
        is, and the author of the file can run any command. Give True only for files of people you trust. No
        other kind of file is ever run.""",
        switch("trust"),
        flag=Flag(None, "of a .pt2 file: let torch run the code that it holds; only if you trust its author"),
    )

    device: Literal["cuda"] | None = option(
        None,
        """"cuda", for a torch source: the ops that eager torch runs on a GPU, estimated without a GPU. Attention and
        dropout have the kernels of CUDA, and offsets are multiples of 512. ``plan.notes`` names unknown bytes.""",
        device_of,
    )

    kernels: bool | None = option(
        None,
        """For a module of torch on the CPU. True: count the bytes that kernels are known to allocate besides their
        results, such as the copies of oneDNN's convolutions, as workspaces of ops. `plan.run` gives kernels this room.
        False: the arena alone. None: `fit` and `pareto` count these bytes where they are known, as ``kernels=True``
        does. All else does not, and `Plan.held` adds them.""",
        lambda value: None if value is None else boolean(value, "kernels"),
    )

    optimizer: Any = option(
        None,
        """With ``train=True``: the optimizer whose step follows the backward pass. A ``torch.optim.Optimizer`` of the
        network's parameters; or a class or function that makes one from a list of parameters, such as
        ``torch.optim.AdamW``; or its name in torch.optim. Gradients then die in the updates, and the loss is the only
        output. Updates are those of torch for one tensor at a time (``foreach=False, fused=False``). States are
        weights: `fc.weight.exp_avg`.""",
        flag=Flag(
            "NAME",
            "with --train: end with the step of this optimizer of torch.optim, such as AdamW, in which gradients die",
            str,
        ),
    )

    keep_gradients: bool = option(
        False,
        """With an optimizer: gradients are outputs too, and live to the end.""",
        switch("keep_gradients"),
    )


@documented
@dataclass(frozen=True, kw_only=True)
class Sharing(Record):
    """Which tensors get a place in the arena, how they are aligned, and which may share bytes."""

    place: Collection[str] = option(
        PLACED,
        """Kinds of tensors of a graph that get a place in the arena: any of "input", "weight", "intermediate",
        "output", "workspace".""",
        checked_place,
        flag=Flag(
            "KIND,KIND",
            "kinds of tensors that get a place: input, weight, intermediate, output, workspace "
            f"(default: {','.join(PLACED)})",
        ),
        graphs_only="a problem's buffers are all placed",
    )

    alignment: int | str = option(
        1,
        """Bytes, >= 1, as an integer or text such as "1KiB". Every offset is a multiple of it. If a Problem or a .csv
        has alignments of its own, the least common multiple holds.""",
        lambda value: in_bytes(value, "alignment", 1),
        flag=Flag("N", "make every offset a multiple of so many bytes, such as 64 or 1KiB (default: 1)", str),
    )

    inplace: bool = option(
        True,
        """Let an op's output take the bytes of an input, if the op allows it, nothing reads the input later, and the
        load does not rise.""",
        switch("inplace"),
        flag=Flag(None, "write no output over an input"),
    )

    disable_inplace_ops: Collection[str] = option(
        (),
        """Types of ops that may not write in place: "Add", "aten.add.Tensor". "aten.add" stands for all its overloads.
        Types that the graph does not have are allowed, unless they look misspelt. The same holds for
        `inplace_ops`.""",
        lambda value: names(value, "disable_inplace_ops"),
        flag=Flag("TYPE,TYPE", "write no output of ops of these types over an input, such as Gelu"),
        graphs_only="a problem says which bytes its buffers need",
    )

    donate: Collection[str] = option(
        (),
        """Names of graph inputs whose bytes may be taken. An output that takes them lies where the input lies.""",
        lambda value: names(value, "donate"),
        flag=Flag("NAME,NAME", "graph inputs that outputs may be written over; their values are lost"),
        graphs_only="a problem says which bytes its buffers need",
    )

    zero_copy: bool = option(
        True,
        """Let a slice lie in the tensor that it is cut from, and the parts of a concatenation in the whole, if that is
        safe and the load does not rise. Other slices and parts are copied. "auto" also tries a plan in which
        nothing shares bytes by choice, and keeps it if it is better.""",
        switch("zero_copy"),
        flag=Flag(None, "copy slices and the parts of concatenations: share no bytes"),
    )


@documented
@dataclass(frozen=True, kw_only=True)
class Layout(Record):
    """Where things must lie, besides what the source asks for itself; docs/constraints.md explains it."""

    pin: Mapping[str, Any] | None = option(
        None,
        """Offsets that tensors, workspaces ("conv1.workspace") or the buffers of a problem must have: by name, in
        bytes or as text such as "4KiB". Tensors named must have a place in the arena; see `place`.""",
        flag=Flag(
            "NAME=N",
            "the offset that a tensor or buffer must have, such as x=4KiB, or x=sram:4KiB in a pool",
            written.pin,
            many=True,
            made=dict,
        ),
    )

    reserved: Sequence[Sequence[Any]] = option(
        (),
        """Ranges (begin, end) of the arena that nothing may use, or (begin, end, first, last) for the steps [first,
        last). The steps of a graph are its ops, in the order in which they run.""",
        flag=Flag(
            "A:B",
            "bytes [A, B) that nothing may use, or A:B:FIRST:LAST for some steps; sram:A:B are those of a pool",
            written.reserved,
            many=True,
            name="--reserve",
        ),
    )

    together: Sequence[Sequence[Any]] = option(
        (),
        """Rows (a, b, distance): b begins `distance` bytes after a; before a if negative. (a, b): at one address.""",
        flag=Flag("A,B,N", "b begins N bytes after a, or where a does if N is left out", written.distance, many=True),
    )

    contiguous: Sequence[Sequence[str]] = option(
        (),
        """Lists of names: each begins where the one before it ends.""",
        flag=Flag("A,B", "each of these begins where the one before it ends", many=True),
    )

    apart: Sequence[Sequence[str]] = option(
        (),
        """Lists of names of which no two may share bytes, even one after the other.""",
        flag=Flag("A,B", "no two of these share bytes, even one after the other", many=True),
    )

    exclude: Collection[str] = option(
        (),
        """Names of tensors that have no place in the arena: they and their views lie where the caller has put them.
        They share no bytes by choice. For a problem, names of buffers that are left out.""",
        lambda value: names(value, "exclude"),
        flag=Flag("X,Y", "tensors that have no place in the arena: they lie where the caller has put them"),
    )

    exclusive: Sequence[Sequence[Sequence[str]]] = option(
        (),
        """Rows of branches, each a list of names of ops or, for a problem, of buffers: a run takes one branch of a
        row. Buffers of two branches may share bytes. A row that lies inside a branch of another comes after that
        other row.""",
    )


@documented
@dataclass(frozen=True, kw_only=True)
class Search(Record):
    """The order of the ops, the pools, the limits of a search, where it begins, and which functions it calls."""

    order: str = option(
        "given",
        """The order in which the ops of a graph run: a name from `orders()`, with parameters as in
        "windows:start=newest". "given" is the order of the source. "best" is the order of the least load that is
        found; its plan is never worse than that of the given order. Any other order may be worse. A runtime has to
        keep to `plan.order`, as `plan.run` does.""",
        check_order,
        graphs_only="a problem has steps, and no ops",
    )

    barrier: Collection[str] = option(
        (),
        """Names of ops that keep their place in any order: all ops listed before such an op stay before it, and all
        ops after it stay after it. In the graph of the plan, `after` has these waits.""",
        lambda value: names(value, "barrier"),
        flag=Flag(
            "NAME,NAME",
            "ops that keep their place in any order: all that is listed before one of them stays before it, and all "
            "behind it stays behind",
        ),
        graphs_only="a problem has steps, and no ops",
    )

    capacity: int | str | None = option(
        None,
        """Bytes, >= 0, as an integer or text such as "1.5GiB"; or "60%" of the peak of the plan without a capacity,
        its ops in the given order. The first plan that peaks at or below it is enough: auto, valley, squeaky_wheel,
        exhaustive, hill_climb, somas and cp_sat end there. The others run to their end.""",
        _capacity,
        excludes={"pools": ": each pool has a capacity of its own"},
    )

    pools: Sequence[Any] = option(
        (),
        """Memories that tensors may lie in: a list of `Pool`. Each buffer lies in one pool that accepts it, so that all
        accesses cost least; among plans of equal cost, pools without a capacity peak as low as possible.
        `Plan.pools` has the pools, the cost, and a bound of it.""",
        excludes={RANGED: ""},
    )

    accesses: Mapping[str, int] | Sequence[int] | None = option(
        None,
        """With pools: how often buffers are accessed, as counts by name; for problems also one count per buffer. By
        default 1 for problems. Tensors of graphs are written once, and read once by each op that reads them.""",
        excludes={RANGED: ""},
        needs=("pools", "pools=[memplan.plans.Pool(...), ...]"),
    )

    price: Sequence[tuple[str, str, int]] = option(
        (),
        """Rows (a, b, price): the price if these two share bytes, one after the other. The plan costs as little as
        memplan can find within the capacity; among such plans, it peaks as low as memplan can find.
        ``plan.pricing`` has the price, and the proven bounds.""",
        flag=Flag("A,B,N", "the price if these two share bytes", written.price, many=True),
        excludes={"pools": "", "keep": "", RANGED: ""},
    )

    keep: Any = option(
        None,
        """An earlier plan, or offsets by name. memplan finds a plan, and then changes it so that few buffers
        lie elsewhere than before. The peak stays as low, or within the capacity if there is one. ``plan.moved``
        names the buffers that moved; at least ``plan.moved_bound`` have to. Each part has half of a time limit.""",
        flag=Flag("PLAN", "an earlier plan, .json or .csv, of whose offsets few shall change", Path),
        excludes={"pools": "", RANGED: ""},
    )

    start: Any = option(
        None,
        """An earlier plan, or offsets by name, from which a search begins. memplan first moves the buffers that do not
        fit any more. The result is never worse than that plan; if it is that plan, its `winner` is "start". Planners
        that do not search refuse `start`.""",
        flag=Flag("PLAN", "an earlier plan, .json or .csv, from which a search begins", Path),
        excludes={"pools": "", RANGED: ""},
    )

    time_limit: float | None = option(
        None,
        """Seconds. Planners that search then keep their best plan so far: auto, valley, squeaky_wheel, beam,
        exhaustive, hill_climb, somas, cp_sat. A search that has no plan of its own yet gives that of first_fit. Other
        planners have no plan before they end; if they take longer, TimeLimitError is raised. Without a time limit,
        "auto" ends after its effort, counted in work, as in "auto:effort=100000000".""",
        lambda value: seconds(value, "time_limit"),
        flag=Flag("S", "end a search after so many seconds, with its best plan", written.seconds),
    )

    seed: int = option(
        0,
        """For planners that use chance. The same seed gives the same plan.""",
        lambda value: integer(value, "seed", 0, 2**64 - 1),
        flag=Flag("N", "for planners that use chance (default: 0)", written.whole),
    )

    threads: int = option(
        1,
        """Threads, for a search that uses several. For one seed, the plan is the same for any number of threads. With
        "cp_sat" only the peak is the same, and not even that if a time limit ends the search.""",
        lambda value: integer(value, "threads", 1, 2**31 - 1),
        flag=Flag("N", "threads of a search (default: 1)", written.whole),
    )

    on_improvement: Callable[[Any], object] | None = option(
        None,
        """A function that is called with each plan that peaks below all plans before it. The plan is verified. The
        call is on the thread that called `plan`. The last such plan has the peak of the plan that is returned.
        Planners that do not search call it once. An exception that it raises ends the search, and is raised here.
        With `price` it is called with each plan that is cheaper, or as cheap and lower.""",
        lambda value: callback(value, "on_improvement", "a plan"),
        excludes={"pools": "", RANGED: ""},
        is_callback=True,
    )

    on_order: Callable[[_core.OrderProgress], object] | None = option(
        None,
        """A function that is called during the search for an order, with an `OrderProgress`: whenever an order needs
        less than all before it, and whenever a higher bound is proven. It may raise, as `on_improvement` may.""",
        lambda value: callback(value, "on_order", "an OrderProgress"),
        is_callback=True,
    )

    on_interrupt: Literal["keep", "raise"] = option(
        "keep",
        """The effect of Ctrl-C on a search. "keep" returns the best plan so far, whose `interrupted` is True. "raise"
        raises KeyboardInterrupt. "keep" also raises it if there is no plan yet, at the second Ctrl-C, and with
        planners that do not search. Signals reach the main thread only.""",
        interrupting,
    )
