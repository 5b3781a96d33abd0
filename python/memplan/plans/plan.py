"""`Plan`: the record of a plan, with methods that explain, draw, write and run it.

The file is long because all methods are documented here. Their code is in other folders, most of them on floors above
this one: each method imports what it hands on to when it is called.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from .. import frontend
from .record import PlanRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..diffs.diff import PlanDiff
    from ..explaining.explanation import Explanation
    from ..explaining.reuse import Reuse
    from ..fitting.curve import Pareto
    from ..running.program import Run


class Plan(PlanRecord):
    __doc__ = PlanRecord.__doc__

    def at(self, **sizes: int) -> Plan:
        """The plan at one size, for a plan with `dims` in a range: ``plan.at(batch=8)``.

        Each buffer begins at the highest end of the buffers that lie below it in this plan. The result is an ordinary
        plan, verified at this size. `ranged` of this plan has the peaks of the sizes that were looked at.

        Raises
        ------
        ValueError
            The plan has no range, or the sizes are not in it.
        UnsupportedError
            The network has other ops at this size.
        """
        if self.ranged is None:
            raise ValueError("the plan is for one size: plan with dims={'batch': (1, 64)} for a range")
        return self.ranged.at(sizes)

    def reuse(self, key: str | int) -> Reuse:
        """Which tensors have the bytes of a tensor or buffer before and after it, and which share them by choice.

        O(n) for n buffers. ``print(plan.reuse("relu_1"))`` shows it as a table.

        Raises
        ------
        KeyError, IndexError
            As `plan[key]`.
        """
        from ..explaining.reuse import reuse_of

        return reuse_of(self, key)

    def pareto(self, capacities: Sequence[int | str] | None = None, **options: Any) -> Pareto:
        """Cost over capacity, for the graph of the plan with its options: see `memplan.pareto`.

        For a plan in several pools, the curve is over the capacity of the first pool, or of ``pool="sram"``.

        Raises
        ------
        TypeError
            The plan is of a problem without pools, or from a file.
        """
        from ..fitting.pareto import pareto_of

        return pareto_of(self, capacities, **options)

    def explain(self) -> Explanation:
        """What makes the peak, its distance to the lower bound, and changes that lower it; as text, HTML or JSON."""
        from ..explaining.explanation import explain

        return explain(self)

    def diff(self, other: Plan) -> PlanDiff:
        """What differs in another plan: of a new version of a model, or by another planner.

        Tensors are matched by name. If a plan has no graph, as a plan from a file, buffers are matched instead.
        """
        from ..diffs.diff import diff

        return diff(self, other)

    def run(
        self,
        *inputs: Any,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        weights: Mapping[str, Any] | None = None,
        check: bool = False,
        views: bool = False,
        engine: Literal["reference", "onnxruntime"] | None = None,
        source: Any = None,
        train: bool = False,
        dims: Mapping[str, int] | None = None,
        values: Mapping[str, Any] | None = None,
        inplace_ops: Collection[str] = (),
        trust: bool = False,
        optimizer: Any = None,
        keep_gradients: bool = False,
    ) -> Run:
        """Run the network that was planned, in one arena of `peak` bytes: every placed tensor lies where the plan says.

        Plan with ``alignment=64``, so that every tensor begins where its elements may.

        Parameters
        ----------
        inputs, args, kwargs
            The arguments of the network: ``run(x)``, or ``run(args=(x,))`` as for `memplan.plan`. For ONNX,
            arrays in the order of the inputs, or by name in `kwargs`. Shapes and dtypes are those that were planned. An
            input that was planned for one value alone may be left out.
        weights
            Tensors by name, in place of those that the network holds.
        check
            Fill the arena with garbage before the run, and every tensor's bytes when the plan says that it is dead. A
            plan that is wrong then gives wrong results.
        views
            Return tensors as views of the arena, which are valid until the next run. By default, each has memory of
            its own.
        engine
            For ONNX: what computes the nodes. "reference", the default, are the operators that onnx brings, which are
            slow; "onnxruntime" needs the extra of this name. If an engine cannot run a node, the other engine runs it.
        source, train, dims, values, inplace_ops, trust, optimizer, keep_gradients
            The source and its options, as they were given to `memplan.plan`. Only a plan that holds no network needs
            them: one from a JSON file or a pickle, or of a graph.

        Returns
        -------
        memplan.running.Run
            The results of the network, or the loss and the gradients. With an optimizer, its step has changed weights
            and states.

        Raises
        ------
        TypeError, SourceError
            No network to run, or inputs, weights or a source that do not fit the plan. The message names what was
            expected and what came.
        InvalidPlanError
            A tensor would lie outside of its place, or begin where its elements may not.
        """
        from ..running.plans import run_plan

        given = {"source": source, "train": train, "dims": dims, "values": values, "inplace_ops": inplace_ops}
        given |= {"trust": trust, "optimizer": optimizer, "keep_gradients": keep_gradients}
        return run_plan(self, inputs, args, kwargs, given, weights=weights, check=check, views=views, engine=engine)

    @cached_property
    def program(self) -> Any:
        """The network with its ops in the order of the plan; it is made at its first use.

        For a network of torch, a `torch.fx.GraphModule`. It has the operators that the importer saw and the weights of
        the network, and takes the same arguments. With ``train=True`` it returns the loss, and the gradients by name.
        For a model of ONNX, an `onnx.ModelProto` with its nodes in another order. Results are equal bit for bit, or up
        to rounding where ops run in pieces.

        Raises
        ------
        TypeError
            The plan holds no network: it is of a problem or graph, or was read or unpickled.
        SourceError
            The network changed since it was planned.
        UnsupportedError
            The network cannot be written in this form. The message says why.
        """
        from ..running.plans import program_of

        return program_of(self).in_order(self)

    @property
    def optimizer(self) -> Any:
        """The optimizer whose step ends each `run`, with its states and options; None if none was planned.

        The one that was given to `memplan.plan`; or, if that was a class, a function or a name, the one that it made.
        """
        from ..running.plans import program_of

        return getattr(program_of(self), "optimizer", None)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        title: str | None = None,
        highlight: str | Iterable[str] = (),
        colour_by: str = "buffer",
        zoom: str | Sequence[int] | None = None,
    ) -> Axes:
        """Draw the plan as a Gantt chart: steps across, bytes up, one box per buffer, with the load and the peak.

        Parameters
        ----------
        ax
            Where to draw. By default, a new figure.
        title
            By default, the planner, peak and gap.
        highlight
            Names of tensors, buffers or modules to bring out. They keep their colour and get a label; the others fade.
            A part of a module's path, such as "attn.kv", stands for all modules that have it.
        colour_by
            "buffer" (neighbours differ), "order" (of birth), "size", "lifetime", "kind", "op_type" or "layer" (the
            module path in names).
        zoom
            "peak" for the steps around the peak, or the steps (first, last) to show, half-open.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the picture; ``.figure.savefig("plan.svg")`` writes it. `memplan.draw.plot_plans` draws
            several plans.

        Raises
        ------
        ValueError
            An unknown name or option, or an option that needs a graph. The message says what is expected.
        """
        from ..draw.gantt import plot_plan

        return plot_plan(self, ax, title=title, highlight=highlight, colour_by=colour_by, zoom=zoom)

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "memory plan",
        highlight: str | Iterable[str] = (),
        colour_by: str = "buffer",
    ) -> None:
        """Write the plan as an interactive page, one HTML file that needs no network; see `memplan.draw.write_page`."""
        from ..draw.page import write_page

        write_page(self, path, title=title, highlight=highlight, colour_by=colour_by)

    def layout(self, limit: int | None = None) -> str:
        """Where each tensor lies, as a table: one row per buffer and view, sorted by birth.

        With a `limit`, the table is for a terminal: it has at most that many rows, and long names are cut.
        """
        from ..draw.layout import layout_text

        return layout_text(self, limit)

    def summary(self) -> str:
        """All figures, a line each: buffers, naive bytes, load, peak, proof, planner and seconds."""
        from ..draw.layout import summary_text

        return summary_text(self)

    def to_csv(self, path: str | os.PathLike[str], *, form: str = "minimalloc") -> None:
        """Write the plan as CSV.

        `form` is "minimalloc" (id,lower,upper,size,alignment,offset) or "gantt"
        (tensor_name,size,offset,start_time,end_time). Lifetimes are half-open in both.
        """
        from ..export.csv import write_plan_csv

        write_plan_csv(self, path, form=form)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as versioned JSON."""
        from ..export.json import write_plan_json

        write_plan_json(self, path)

    def to_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        source: Any = None,
        dims: Mapping[str, int] | None = None,
        values: Mapping[str, Any] | None = None,
        inplace_ops: Collection[str] = (),
    ) -> None:
        """Write the ONNX model that was planned with its nodes in the order of the plan.

        Nothing else changes: weights, functions and bodies stay as they are, and payload in other files stays there. A
        call of a function stands where its last result is made.

        If `memplan.fit` has split ops, and changed nothing else, the model has pieces of them: ordinary nodes, with
        Slice and Concat between them where needed, on the same weights. Any runtime runs it. Results are equal up to
        rounding. A runtime orders nodes by itself, so pieces are fewer than those of the plan, and read nothing of each
        other: docs/split.md says which are taken. A RuntimeWarning says if none is worth its work.

        Parameters
        ----------
        path
            A file, which is written beside and then renamed. A model with payload in other files is to be written into
            their folder.
        source, dims, values, inplace_ops
            The model again, with its options, for a plan that holds none: one of a file, a pickle, or of a graph.

        Raises
        ------
        TypeError, SourceError
            No model of ONNX, or not the one that was planned.
        ValueError
            Another folder than that of the payload.
        UnsupportedError
            Ops run in pieces, and the plan has other changes too.
        """
        frontend.member("to_onnx")(self, path, source, {"dims": dims, "values": values, "inplace_ops": inplace_ops})

    def to_layout(self, path: str | os.PathLike[str]) -> None:
        """Write the whole layout table as text."""
        from ..files import write_text

        write_text(path, self.layout())

    def to_c_header(self, path: str | os.PathLike[str], *, prefix: str | None = None) -> None:
        """Write a header for C99, C++11 or later: the arena's size and alignment, each tensor's offset and size.

        A compiler of C99 or C++11, or later, checks that each tensor lies in the arena and is aligned.
        See docs/devices.md.

        Parameters
        ----------
        prefix
            The beginning of all names. By default, the name of the file: "net.h" has ``NET_ARENA_BYTES``,
            ``NET_ARENA_ALIGNMENT``, and for the tensor "conv.1" ``NET_CONV_1_OFFSET`` and ``NET_CONV_1_BYTES``. A
            number makes names unique.

        Raises
        ------
        ValueError
            The prefix is no name in C, or the alignments of the buffers have no power of two as a common multiple.
        """
        from ..export.c_header import write_c_header

        write_c_header(self, path, prefix=prefix)

    def to_tflite(
        self,
        path: str | os.PathLike[str],
        model: str | os.PathLike[str],
        *,
        inplace_ops: Collection[str] = (),
        signature: str | None = None,
    ) -> None:
        """Write a TFLite model with the plan in its metadata, which the allocator of TFLite Micro takes.

        Operators are written in the order of the plan. Nothing else of the model changes. A tensor without a place in
        the plan is placed when the model is loaded; so are those of other subgraphs. Plan with ``place=("input",
        "intermediate", "output"), alignment=16``, so that all have one. See docs/devices.md.

        Parameters
        ----------
        path
            A file, which is written beside and then renamed.
        model
            The file that was planned.
        inplace_ops, signature
            As they were given to `memplan.plan`.

        Raises
        ------
        InvalidPlanError
            The plan does not hold for this model.
        ValueError
            The plan has other ops, or in an order in which they cannot run, or a tensor begins where its elements may
            not.
        """
        frontend.member("to_tflite")(self, path, model, inplace_ops, signature)

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace (JSON) that Perfetto and chrome://tracing open.

        It has the ops, the buffers in rows by address, and counters of the load and of the top of the arena. One step
        is one microsecond.
        """
        from ..export.chrome_trace import write_chrome_trace

        write_chrome_trace(self, path)

    def to_memory_viz(self, path: str | os.PathLike[str]) -> None:
        """Write a memory snapshot (pickle) like torch's, for the page pytorch.org/memory_viz.

        The arena is a segment, in which buffers are allocated and freed at their addresses. Torch is not needed.
        """
        from ..export.memory_viz import write_memory_viz

        write_memory_viz(self, path)

    def __str__(self) -> str:
        """The peak, how good it is, and its planner, in one line. `summary` has all figures, `layout` the table."""
        from ..draw.layout import line_text

        return line_text(self)

    def _repr_html_(self) -> str:
        from ..draw.notebook import plan_html

        return plan_html(self)
