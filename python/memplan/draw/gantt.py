"""The Gantt picture of a plan: steps across, bytes up, one box per buffer, or the outline of its parts.

The load is drawn where it hides no box: in a strip below the boxes, or behind them in axes that the caller brings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..plans.moved_ops import moved_ops
from ..plans.plan import Plan
from ..plans.returns import returns_of
from ..plans.verdict import changes_text, title_of
from ..printing.units import counted
from .away import height
from .bands import scale_bands, spaced
from .boxes import Panels, draw
from .colours import OTHERS, Colouring, buffers_by_name, colouring, whole
from .figures import new_figure, png, save
from .highlight import Steps, checked_plans, checked_titles, marks, names_in, window
from .legend import legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SMALL = 9, 5  # inches


def plot_plan(plan: Plan, ax: Axes | None = None, **options: Any) -> Axes:
    """Draw a plan as `Plan.plot` says. In axes that are given, the load is behind the boxes, else in a strip below.

    The axes have one collection, with a path for each buffer in sight, the names that fit, and the peak as a line with
    a mark at its step. A shaped buffer is the union of its parts; its name is in the largest part.
    """
    title = options.pop("title", None)
    panels = partial(_new_panels, [plan]) if ax is None else lambda: [Panels(ax)]
    return _plot([plan], panels, None if title is None else [title], **options)[0]


def plot_coloured(plan: Plan, ax: Axes, colours: Colouring, steps: Steps) -> None:
    """Draw these steps of a plan into axes, in these colours."""
    drawn = spaced(plan)
    draw(drawn, Panels(ax), colours, [], steps, max(drawn.peak, 1))
    scale_bands([drawn], ax)


def plot_plans(
    plans: Sequence[Plan],
    *,
    titles: Sequence[str] | None = None,
    highlight: str | Iterable[str] = (),
    colour_by: str = "buffer",
    zoom: str | Sequence[int] | None = None,
) -> list[Axes]:
    """Draw plans of one network side by side, at the same scale. A buffer has the same colour in all plans.

    Parameters
    ----------
    plans
        One or more, also of several orders of the ops. The first plan decides the colours and, for ``zoom="peak"``, the
        steps. A buffer whose name the first plan does not have is grey; one whose tensor lies in another's bytes there
        has the colour of these bytes.
    titles
        One for each plan. By default, its planner, peak and gap, how many buffers lie elsewhere than in the first plan,
        and how many ops run earlier or later.
    highlight, colour_by, zoom
        As in `Plan.plot`.

    Returns
    -------
    list of matplotlib.axes.Axes
        One for each plan, in a new figure: ``axes[0].figure.savefig(path)`` writes it.

    Raises
    ------
    TypeError
        `plans` is not a list of plans (a dict is not), or `titles` is not a list of strings.
    ValueError
        There are no plans, or not as many titles as plans, or `Plan.plot` would raise it.
    """
    plans, titles = checked_plans(plans), checked_titles(titles)
    if not plans or (titles is not None and len(titles) != len(plans)):
        got = f"{len(plans)} plans" if titles is None else f"{len(plans)} plans and {len(titles)} titles"
        raise ValueError(f"plot_plans needs at least one plan, and one title for each if any, got {got}")
    return _plot(plans, partial(_new_panels, plans), titles, highlight, colour_by, zoom)


def plans_picture(plans: Sequence[Plan], titles: Sequence[str]) -> bytes:
    """Plans side by side, as a PNG."""
    return png(_figure(plans, _inches(len(plans)), titles=titles))


def _plot(
    plans: Sequence[Plan],
    panels: Callable[[], list[Panels]],
    titles: Sequence[str] | None = None,
    highlight: str | Iterable[str] = (),
    colour_by: str = "buffer",
    zoom: str | Sequence[int] | None = None,
) -> list[Axes]:
    """`plot_plans`, into axes that are made once the options are known to be right."""
    names = names_in(highlight)
    drawn = [spaced(plan) for plan in plans]
    found, every = [marks(plan, names) for plan in drawn], _windows(plans, zoom)
    first = colouring(plans[0], colour_by)
    drawn_in = panels()
    for k, (plan, own) in enumerate(zip(plans, drawn_in, strict=True)):
        colours, ax = _as_in(plans[0], first, plan), own.boxes
        draw(drawn[k], own, colours, found[k], every[k], max(1, *(other.peak for other in drawn)))
        for axes in (ax, own.load) if len(plans) > 1 else ():
            if axes is not None:
                axes.label_outer()
        title = titles[k] if titles is not None else _title(plans, k)
        ax.set_title(title, loc="left", fontsize="medium", parse_math=False)
    boxes = [own.boxes for own in drawn_in]
    scale_bands(drawn, boxes[0])
    legend(boxes[-1], first)
    return boxes


def check_options(
    plan: Plan, highlight: Iterable[str] = (), colour_by: str = "buffer", zoom: str | Sequence[int] | None = None
) -> None:
    """ValueError for options of `plot_plan` that this plan cannot be drawn with, nor any other of the same source."""
    marks(plan, highlight)
    colouring(plan, colour_by)
    window(plan, zoom)


def save_plot(plan: Plan, path: str | os.PathLike[str], **options: Any) -> None:
    """Draw a plan into a file; its suffix says the format (png, svg, pdf), `options` are those of `plot_plan`."""
    save(_figure([plan], _inches(1), **options), path)


def plan_picture(plan: Plan) -> bytes:
    """A plan as a small PNG without a title."""
    wide, high = _SMALL
    return png(_figure([plan], (wide, high + 1.5 * bool(returns_of(plan))), titles=[""]))


def _figure(plans: Sequence[Plan], inches: tuple[float, float], **options: Any) -> Figure:
    figure = new_figure(inches)
    _plot(plans, lambda: _panels_in(figure, plans), **options)
    return figure


def _new_panels(plans: Sequence[Plan]) -> list[Panels]:
    from matplotlib import pyplot as plt

    return _panels_in(plt.figure(figsize=_inches(len(plans)), layout="constrained"), plans)


def _inches(count: int) -> tuple[float, float]:
    return 12 if count == 1 else min(8 * count, 32), 7


def _panels_in(figure: Figure, plans: Sequence[Plan]) -> list[Panels]:
    """Per plan, the axes of its boxes and those of its load below them, on the same steps; between, what is away."""
    returns = [returns_of(plan) for plan in plans]
    heights = (6, 2, 1) if any(returns) else (6, 1)
    shape = len(heights), len(plans)
    steps: Any = "col" if _steps_differ(plans) else "all"
    axes: Any = figure.subplots(*shape, sharex=steps, sharey="row", squeeze=False, height_ratios=heights)
    if not any(returns):
        return [Panels(boxes, load=load) for boxes, load in zip(*axes.tolist(), strict=True)]
    highest = max(map(height, returns))
    return [Panels(boxes, away, load, highest) for boxes, away, load in zip(*axes.tolist(), strict=True)]


def _windows(plans: Sequence[Plan], zoom: str | Sequence[int] | None) -> list[Steps]:
    """The steps to show of each plan: the same ones, but where steps differ, its own."""
    if _steps_differ(plans):
        return [window(plan, zoom) for plan in plans]
    every = [window(plan, zoom) for plan in (plans if zoom is None else plans[:1])]
    return [(min(begin for begin, _ in every), max(end for _, end in every))] * len(plans)


def _steps_differ(plans: Sequence[Plan]) -> bool:
    """Whether steps of one plan are no steps of another, as ops run in pieces there."""
    return any(change.kind == "split" for plan in plans for change in plan.changes)


def _as_in(model: Plan, colours: Colouring, plan: Plan) -> Colouring:
    """The colours that buffers of these names, or the bytes that these tensors lie in, have in another plan."""
    if plan is model:
        return colours
    of_name = {name: colours.colours[b] for name, b in buffers_by_name(model).items()}
    of_name |= {one.back.name: of_name[one.tensor] for one in returns_of(plan) if one.tensor in of_name}
    names = [whole(plan, plan.problem.name(b)) for b in range(len(plan))]
    return replace(colours, colours=[of_name.get(name, OTHERS) for name in names])


def _title(plans: Sequence[Plan], k: int) -> str:
    """Of a plan alone its figures and what was given up; beside others, what is elsewhere than in the first."""
    plan = plans[k]
    if len(plans) == 1:
        return title_of(plan) + (f"\n{changes_text(plan.fitting)}" if plan.changes and plan.fitting is not None else "")
    return title_of(plan, "\n") + "\n" + (_moved(plans[0], plan) if k else "")


def _moved(model: Plan, plan: Plan) -> str:
    """How many buffers, and where the order differs, ops are elsewhere than in another plan; or what was given up."""
    if plan.fitting is not None and model.fitting is None:
        return changes_text(plan.fitting)
    there, places = ({slot.name: (slot.pool, slot.address) for slot in which} for which in (model, plan))
    count = sum(there.get(name) != place for name, place in places.items())
    ops = len(moved_ops(model.order, plan.order))
    text = f"{count:,} buffers elsewhere than in the first"
    return f"{text}, {counted(ops, 'ops')} earlier or later" if ops else text
