"""What notebooks show: valid, escaped, bounded, with a picture."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread

import memplan
from memplan import generate

EVIL = """<script>alert("1")</script>&'\x00\n]]>"""


def parsed(html: str) -> ElementTree.Element:
    """The page as a tree: everything is escaped, and closed but for the picture, as HTML has it."""
    return ElementTree.fromstring(re.sub(r"(<img [^>]*)>", r"\1/>", html))


def rows(html: str) -> dict[str, str]:
    return {str(row[0].text): str(row[1].text) for row in parsed(html).iter("tr")}


def picture(html: str) -> tuple[int, int] | None:
    """Width and height of the picture, in pixels."""
    image = parsed(html).find(".//img")
    if image is None:
        return None
    data = base64.b64decode(str(image.get("src")).removeprefix("data:image/png;base64,"))
    height, width, _ = imread(io.BytesIO(data)).shape
    return width, height


def html_of(thing: object) -> str:
    html = thing._repr_html_()  # type: ignore[attr-defined]
    assert isinstance(html, str)
    return html


def test_a_plan_shows_figures_and_its_picture() -> None:
    plan = memplan.plan(memplan.Problem([4, 2, 0, 3], [0, 2, 0, 4], [4, 8, 8, 8], 1, list("abcd")), "first_fit")
    html = html_of(plan)
    assert rows(html)["peak"] == f"{plan.peak} bytes, {1 - plan.peak / 9:.1%} below naive"
    assert picture(html) == (990, 550)


def test_a_graph_shows_kinds_types_and_the_load() -> None:
    graph = memplan.capture("example:resnet50_train").graph
    html = html_of(graph)
    shown = rows(html)
    assert shown["ops"] == f"{len(graph.ops):,}"
    assert shown["tensors"] == f"{len(graph.tensors):,}"
    assert shown["aten.relu_.default"] == "49"
    others = [value for label, value in shown.items() if label.endswith("other types")]
    counted = [int(shown[op].replace(",", "")) for op in {op.type for op in graph.ops} & set(shown)]
    assert sum(counted) + sum(int(value.replace(",", "")) for value in others) == len(graph.ops)
    inputs = [tensor for tensor in graph.tensors if tensor.kind == "input"]
    assert shown["input"].startswith(f"{len(inputs):,}, ")
    assert f"({sum(tensor.bytes for tensor in inputs):,} bytes)" in shown["input"]
    assert f"({memplan.plan(graph).load:,} bytes)" in shown["load"]
    assert len(html) < 50_000


def test_a_problem_shows_counts_and_its_load() -> None:
    parts = [(0, 0, 4, 1, 3), (0, 4, 8, 1, 2)]
    problem = memplan.Problem([8, 4], [1, 2], [3, 9], [4, 16], ["a", "b"], parts, [(0, 1)])
    html = html_of(problem)
    assert rows(html) == {
        "buffers": "2",
        "bytes": "12 bytes",
        "load": "8 bytes",
        "steps": "1 to 9",
        "alignment": "4, 16",
        "parts": "2, of 1 buffers",
        "conflicts": "1",
    }
    assert picture(html) == (990, 275)


def evil_graph() -> memplan.Graph:
    tensor = memplan.Tensor(EVIL, 8, "output")
    return memplan.Graph([tensor], [memplan.Op(EVIL, EVIL, [], [EVIL])], [EVIL])


@pytest.mark.parametrize(
    "thing",
    [
        memplan.plan(memplan.Problem([8], [0], [1], 1, [EVIL])),
        memplan.plan(evil_graph()),
        evil_graph(),
        memplan.Problem([8], [0], [1], 1, [EVIL]),
    ],
    ids=["plan of a problem", "plan of a graph", "graph", "problem"],
)
def test_names_are_text_whatever_is_in_them(thing: object) -> None:
    html = html_of(thing)
    assert "<script" not in html
    assert "\x00" not in html
    assert not [element for element in parsed(html).iter() if "script" in element.tag]
    if isinstance(thing, memplan.Graph):
        assert "&lt;script&gt;" in html


@pytest.mark.few(2)
@pytest.mark.parametrize("thing", ["layers", "noise", "long names", "shapes"])
def test_pages_stay_small(thing: str) -> None:
    random = np.random.default_rng(5)
    count = 800 if thing == "long names" else 20_000
    first = random.integers(0, 5000, count)
    names = [("&<'" * 100) + str(k) for k in range(count)] if thing == "long names" else None
    problem = memplan.Problem(random.integers(2, 10**6, count), first, first + random.integers(2, 300, count), 1, names)
    if thing == "layers":
        problem = generate.layered(20_000)
    if thing == "shapes":
        own = [(k, b, b + 1, f, f + 2) for k, f in enumerate(first[:5000].tolist()) for b in (0, 1)]
        problem = memplan.Problem([2] * 5000, first[:5000], first[:5000] + 2, 1, None, own)
    plan = memplan.plan(problem, "naive" if thing == "noise" else "greedy_by_size")
    html = html_of(plan)
    assert len(html) < 300_000
    assert len(html_of(problem)) < 300_000
    parsed(html)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "columns",
    [([], [], []), ([0, 0], [0, 3], [1, 9]), ([5], [-7], [-3]), ([2**62], [0], [1]), ([3], [2**61], [2**61 + 2])],
)
def test_degenerate_problems_show_themselves(columns: tuple[list[int], ...]) -> None:
    problem = memplan.Problem(*columns)
    for thing in (problem, memplan.plan(problem)):
        assert not re.search(r"\bnan\b|\binf\b", html_of(thing))
        assert (picture(html_of(thing)) is not None) == bool(columns[0])


def test_a_graph_without_ops_shows_itself() -> None:
    assert rows(html_of(memplan.Graph([], [], [])))["ops"] == "0"


def test_letters_have_the_colour_of_the_text_around() -> None:
    html = html_of(memplan.plan("example:resnet50_infer"))
    styles = " ".join(str(element.get("style")) for element in parsed(html).iter())
    assert not re.search(r"(?<!-)color|background", styles)


def test_the_package_loads_no_pictures_until_they_are_shown() -> None:
    script = (
        "import sys, memplan\n"
        "assert memplan.Graph._repr_html_ and memplan.Problem._repr_html_\n"
        "assert not {'matplotlib', 'rich', 'PIL'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_text_is_text_in_notebooks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich would show it at once there, and what is returned would be empty."""
    plan = memplan.plan("example:resnet50_infer", "first_fit")
    texts = [plan.layout, lambda: str(plan.explain()), lambda: str(memplan.compare(plan.problem, ["naive"]))]
    outside = [text() for text in texts[:2]]
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert [text() for text in texts[:2]] == outside
    assert "naive" in texts[2]()
