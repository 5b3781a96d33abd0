"""``memplan plan``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .._core import Problem
from ..draw.colours import COLOUR_BY
from ..importers import Network, form_of
from ..plans.failing import InfeasibleError
from ..plans.plan import Plan
from ..text import printable
from .arguments import (
    Commands,
    Group,
    add_planner,
    add_pools,
    add_search,
    add_source,
    captured,
    capturing,
    check_picture,
    check_targets,
    has_range,
    largest_of,
    new_command,
    planning,
    search_group,
    write_files,
)
from .terminal import INVALID, OK, Progress, console, interrupted, print_summary, readers_may_leave, waiting
from .values import capacity

EXAMPLES = """
memplan plan example:resnet50_infer --plot resnet50.png
memplan plan model.pt2 --plot peak.svg --zoom peak --colour-by layer --highlight layer1.0.relu
memplan plan model.onnx --dims batch=8 --alignment 64 --csv plan.csv
memplan plan example:gpt2_train --html plan.html
memplan plan lifetimes.csv --planner first_fit --layout layout.txt
memplan plan model.onnx --order best --onnx reordered.onnx
memplan plan graph.json --donate x --disable-inplace-ops Add,Mul
memplan plan lifetimes.csv --capacity 1MiB --time-limit 10
memplan plan model.onnx --pool sram=512KiB,align=16 --pool dram
"""


def add(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands, "plan", "give every tensor of a network, or buffer of a list, its place in memory", EXAMPLES
    )
    command.set_defaults(run=run)
    add_source(command)
    search = search_group(command)
    add_planner(search)
    search.add_argument(
        "--capacity",
        type=capacity,
        metavar="N",
        help="end with the first plan that fits so many bytes, such as 1.5GiB, or 90%% of what the given order needs",
    )
    add_pools(search)
    add_search(search)
    _add_files(command.add_argument_group("files to write"))
    _add_picture(command.add_argument_group("the picture of --plot, and what the page of --html shows first"))


def _add_files(group: Group) -> None:
    group.add_argument("--plot", type=Path, metavar="F", help="the plan as a picture: .png, .svg or .pdf")
    group.add_argument("--html", type=Path, metavar="F", help="the plan as an interactive page")
    group.add_argument(
        "--layout", type=Path, metavar="F", help="the plan as a table for people: where each tensor lies"
    )
    group.add_argument("--json", type=Path, metavar="F", help="the plan as JSON, which memplan reads back")
    group.add_argument("--csv", type=Path, metavar="F", help="the plan as CSV, a line per buffer")
    group.add_argument(
        "--csv-form",
        default="minimalloc",
        choices=["minimalloc", "gantt"],
        help="the columns of --csv: id,lower,upper,size,alignment,offset (minimalloc, the default), or "
        "tensor_name,size,offset,start_time,end_time (gantt)",
    )
    group.add_argument("--c-header", type=Path, metavar="F", help="the plan as constants for C and C++")
    group.add_argument("--onnx", type=Path, metavar="F", help="the ONNX model with its nodes in the order of the plan")
    group.add_argument(
        "--tflite", type=Path, metavar="F", help="the TFLite model with the plan in its metadata, for TFLite Micro"
    )
    group.add_argument("--chrome-trace", type=Path, metavar="F", help="a trace for ui.perfetto.dev, as JSON")
    group.add_argument("--memory-viz", type=Path, metavar="F", help="a snapshot for pytorch.org/memory_viz")


def run(options: argparse.Namespace) -> int:
    """Plan, write and print; returns the exit status."""
    _check_targets(options)
    with waiting(f"reading {options.source}"):
        opened = _opened(options.source)
        ranged = capturing(options) if has_range(options) else {}
        options.dims = largest_of(options.dims)
        source = captured(options, options.source if opened is None else opened)
    _check_picture(options, source)
    try:
        result = _planned(options, options.source if ranged else source, ranged)
    except InfeasibleError as error:
        return _infeasible(error)
    with waiting("writing"):
        _write(options, result)
    with readers_may_leave():
        print_summary(options.source, result)
        if result.ranged is not None:
            print(result.ranged)
        if opened is not None:
            console().print(str(opened.report(result)), soft_wrap=True)
    if result.interrupted:
        return interrupted("this is the best plan until then")
    return OK


def _opened(source: str) -> Any:
    """What a file holds that has figures of its own, which are shown beside those of the plan; None for others."""
    form = form_of(source)
    return None if form.opened is None else form.opened(source)


def _check_picture(options: argparse.Namespace, source: Network | Problem) -> None:
    """Refuse names, colours and steps that the source does not have before the search, by a plan that needs none."""
    from ..api import plan
    from ..draw.gantt import check_options

    if wanted := _picture(options):
        check_options(plan(source, "naive", order=options.order, **planning(options)), **wanted)


def _planned(options: argparse.Namespace, source: str | Network | Problem, ranged: Mapping[str, Any]) -> Plan:
    """The plan of what was read; or, for sizes in a range, of the file with what it is read with."""
    from ..api import plan

    progress = Progress()
    with waiting(progress):
        return plan(
            source,
            options.planner,
            pools=options.pool,
            on_improvement=progress.show if sys.stderr.isatty() and not options.pool and not ranged else None,
            on_order=progress.show_order if sys.stderr.isatty() else None,
            capacity=options.capacity,
            order=options.order,
            **planning(options),
            **ranged,
        )


def _infeasible(error: InfeasibleError) -> int:
    for line in str(error).splitlines():
        print(printable(line), file=sys.stderr)
    if error.plan is not None and error.plan.interrupted:
        return interrupted()
    return INVALID


def _check_targets(options: argparse.Namespace) -> None:
    """Refuse before any work what could not be written after it."""
    pictures = [options.plot, options.html, options.chrome_trace, options.memory_viz]
    tables = [options.csv, options.json, options.layout, options.onnx, options.tflite, options.c_header]
    check_targets([*tables, *pictures], [options.source])
    for flag, suffix in (("onnx", ".onnx"), ("tflite", ".tflite")):
        if getattr(options, flag) is not None and Path(options.source).suffix.lower() != suffix:
            raise ValueError(f"--{flag} needs a source that ends in {suffix}, got {options.source}")
    if options.plot is None and options.zoom is not None:
        raise ValueError("--zoom needs a picture to draw: --plot F")
    if options.plot is None and options.html is None and _picture(options):
        raise ValueError("--highlight and --colour-by need a picture or a page: --plot F or --html F")
    check_picture(options.plot)
    if options.html is not None:
        from ..draw.page import require_bokeh

        require_bokeh()


def _write(options: argparse.Namespace, result: Plan) -> None:
    read = capturing(options)
    again = {name: value for name, value in read.items() if name in ("dims", "inplace_ops")}
    of_tflite = {name: value for name, value in read.items() if name in ("inplace_ops", "signature")}
    page = {name: value for name, value in _picture(options).items() if name != "zoom"}  # it is zoomed in the browser
    writers: dict[str, Callable[[Path], None]] = {
        "csv": lambda path: result.to_csv(path, form=options.csv_form),
        "json": result.to_json,
        "c_header": result.to_c_header,
        "onnx": lambda path: result.to_onnx(path, source=options.source, **again),
        "tflite": lambda path: result.to_tflite(path, options.source, **of_tflite),
        "layout": result.to_layout,
        "plot": lambda path: _save_plot(result, path, **_picture(options)),
        "html": lambda path: result.to_html(path, title=options.source, **page),
        "chrome_trace": result.to_chrome_trace,
        "memory_viz": result.to_memory_viz,
    }
    write_files(options, writers)


def _save_plot(result: Plan, path: Path, **options: Any) -> None:
    from ..draw.gantt import save_plot

    save_plot(result, path, **options)


def _add_picture(group: Group) -> None:
    """--highlight, --colour-by and --zoom."""
    group.add_argument(
        "--highlight", action="append", metavar="NAME", help="a tensor or module to bring out; may be repeated"
    )
    group.add_argument("--colour-by", choices=COLOUR_BY, help="what the colours of boxes tell (default: buffer)")
    group.add_argument(
        "--zoom",
        type=_zoom,
        metavar="peak|A:B",
        help="draw only the steps around the peak, or from A up to B; for --plot",
    )


def _picture(options: argparse.Namespace) -> dict[str, Any]:
    """What `save_plot` takes, of what `_add_picture` lets its user say."""
    said = {"highlight": options.highlight, "colour_by": options.colour_by, "zoom": options.zoom}
    return {name: value for name, value in said.items() if value is not None}


def _zoom(text: str) -> str | tuple[int, int]:
    first, colon, last = text.partition(":")
    try:
        return text if text == "peak" else (int(first), int(last if colon else ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be 'peak' or steps A:B, got {text!r}") from None
