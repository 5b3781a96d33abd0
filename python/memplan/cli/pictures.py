"""Options of the picture that `--plot` draws, some of which the page of `--html` takes too."""

from __future__ import annotations

import argparse
from typing import Any

from ..draw.colours import COLOUR_BY
from .arguments import Group


def add_picture(group: Group) -> None:
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


def picture(options: argparse.Namespace) -> dict[str, Any]:
    """What `save_plot` takes, of what `add_picture` lets its user say."""
    said = {"highlight": options.highlight, "colour_by": options.colour_by, "zoom": options.zoom}
    return {name: value for name, value in said.items() if value is not None}


def of_page(options: argparse.Namespace) -> dict[str, Any]:
    """What `Plan.to_html` takes of it: a page is zoomed in the browser."""
    return {name: value for name, value in picture(options).items() if name != "zoom"}


def _zoom(text: str) -> str | tuple[int, int]:
    first, colon, last = text.partition(":")
    try:
        return text if text == "peak" else (int(first), int(last if colon else ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be 'peak' or steps A:B, got {text!r}") from None
