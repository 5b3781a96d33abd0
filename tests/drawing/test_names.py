"""Names that act on a terminal, or that pictures might take for formulas: every door shows them as they are written."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import memplan
from memplan import _core, cli
from memplan.text import one_line, printable

EVIL = "a\x1b]0;b\x07\r\n\x7f\x9b31m\u202e\u2066\u200b\u2028\ufeffé重"
MATHS = r"$\frac{$"


def network(name: str = EVIL) -> dict[str, Any]:
    """Two ops in a row; all names hold `name`."""
    x, t, y, op = (f"{name}.{part}" for part in "xty.")
    return {
        "tensors": [
            {"name": x, "bytes": 64, "kind": "input", "dtype": name},
            {"name": t, "bytes": 64},
            {"name": y, "bytes": 64},
        ],
        "ops": [
            {"name": f"{op}1", "type": name, "inputs": [x], "outputs": [t]},
            {"name": f"{op}2", "type": name, "inputs": [t], "outputs": [y], "inplace": [{"output": y, "input": t}]},
        ],
        "outputs": [y],
    }


def shown(text: str) -> None:
    """Nothing in it acts on a terminal, but for the ends of lines that memplan writes."""
    assert text
    assert EVIL not in text
    acting = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")} - {"\n"}
    assert not acting, ascii(text)


def with_change(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    spec = network()
    change(spec)
    return spec


def problem() -> memplan.Problem:
    return memplan.Problem([4, 4], [0, 1], [2, 3], names=[EVIL, f"{EVIL}2"])


ERRORS: dict[str, Callable[[], Any]] = {
    "unknown input": lambda: memplan.capture(with_change(lambda s: s["ops"][0].update(inputs=[f"{EVIL}?"]))).graph,
    "written twice": lambda: memplan.capture(with_change(lambda s: s["ops"][1].update(outputs=[f"{EVIL}.t"]))).graph,
    "before it is written": lambda: memplan.capture(with_change(lambda s: s["ops"].reverse())).graph,
    "a cycle": lambda: memplan.capture(with_change(lambda s: s["ops"][0].update(inputs=[f"{EVIL}.y"]))).graph,
    "two tensors": lambda: memplan.capture(with_change(lambda s: s["tensors"].append(s["tensors"][0]))).graph,
    "after": lambda: memplan.capture(with_change(lambda s: s["ops"][0].update(after=[EVIL]))).graph,
    "a kind": lambda: memplan.capture(with_change(lambda s: s["tensors"][0].update(kind=EVIL))).graph,
    "a key": lambda: memplan.capture(with_change(lambda s: s.update({EVIL: 1}))).graph,
    "bytes": lambda: memplan.capture(with_change(lambda s: s["tensors"][1].pop("bytes"))).graph,
    "negative bytes": lambda: memplan.capture(with_change(lambda s: s["tensors"][1].update(bytes=-1))).graph,
    "outside": lambda: memplan.capture(with_change(lambda s: s["ops"][1]["inplace"][0].update(offset=1))).graph,
    "donate": lambda: memplan.plan(network(), donate=[EVIL]),
    "donate a weight": lambda: memplan.plan(network(), donate=[f"{EVIL}.y"]),
    "place": lambda: memplan.plan(network(), place=[EVIL]),
    "planner": lambda: memplan.plan(network(), EVIL),
    "parameter": lambda: memplan.plan(network(), f"beam:{EVIL}=1"),
    "value": lambda: memplan.plan(network(), f"beam:k={EVIL}"),
    "value of cp_sat": lambda: memplan.plan(network(), f"cp_sat:seconds={EVIL}"),
    "capacity": lambda: memplan.plan(network(), capacity=EVIL),
    "no room": lambda: memplan.plan(network(), capacity=1),
    "no room for buffers": lambda: memplan.plan(problem(), capacity=7),
    "names": lambda: memplan.Problem([1, 1], [0, 0], [1, 1], names=[EVIL, EVIL]),
    "sizes": lambda: memplan.Problem([-1], [0], [1], names=[EVIL]),
    "example": lambda: memplan.plan(f"example:{EVIL}"),
    "a path": lambda: memplan.plan(EVIL),
    "a tensor": lambda: memplan.plan(network())[EVIL],
    "an input": lambda: memplan.plan(network())[f"{EVIL}.x"],
    "highlight": lambda: memplan.plan(network()).plot(highlight=f"{EVIL}?"),
    "colours": lambda: memplan.plan(network()).plot(colour_by=EVIL),
    "zoom": lambda: memplan.plan(network()).plot(zoom=EVIL),
    "a row": lambda: memplan.compare(network(), ["auto"])[EVIL],
    "sources": lambda: memplan.sweep({EVIL: network()}, ["auto"]),
    "planners": lambda: memplan.compare(network(), [EVIL]),
    "a path of dims": lambda: memplan.capture("x.csv", dims={EVIL: 1}),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors(what: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)) as raised:
        ERRORS[what]()
    shown(str(raised.value))


FILES = {
    "a.json": json.dumps(network() | {EVIL: 1}),
    "b.json": json.dumps({"format": EVIL}),
    "c.json": f'{{"{printable(EVIL[:3])}": 1}}',
    "a.csv": f'id,lower,upper,size\n"{EVIL}",0,1,1\n"{EVIL}",0,1,1\n',
    "b.csv": f"id,lower,{EVIL},size\n",
    "c.csv": f'id,lower,upper,size\na,0,1,"{EVIL}"\n',
}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path) -> None:
    folder = tmp_path / EVIL.replace("\0", "")
    folder.mkdir()
    (folder / name).write_text(FILES[name], encoding="utf-8", newline="")
    for read in (memplan.capture, memplan.read_plan):
        with pytest.raises(ValueError) as raised:  # noqa: PT011
            read(folder / name)
        shown(str(raised.value))


def test_what_is_printed() -> None:
    graph = memplan.capture(network()).graph
    assert isinstance(graph, memplan.Graph)
    plan, naive = memplan.plan(graph), memplan.plan(graph, "naive")
    for thing in (*graph.tensors, *graph.ops, plan, plan[0], plan.sharing[0], problem(), naive.diff(plan)):
        shown(repr(thing))
    tables = [plan, plan.summary(), plan.layout(), plan.explain(), naive.explain(), naive.diff(plan), plan.reuse(0)]
    tables += [plan.tensors, memplan.compare(network(), ["auto", "naive"])]
    for table in tables:
        shown(str(table))
    overlapping = _core.verify(problem(), [0, 0])
    shown(overlapping[0].message)
    comparison = memplan.compare(network(), ["naive"])
    for source in (EVIL, f"example:{EVIL}"):
        shown(repr(type(comparison)(source, comparison.rows)))
        shown(str(type(comparison)(source, comparison.rows)))


COMMANDS = [
    ["plan", EVIL],
    ["plan", f"{EVIL}.csv"],
    ["plan", f"example:{EVIL}"],
    ["plan", "net.json"],
    ["plan", "net.json", "--planner", "first_fit", "--capacity", "5"],
    ["plan", "net.json", "--donate", EVIL],
    ["plan", "net.json", "--place", EVIL],
    ["plan", "net.json", "--planner", EVIL],
    ["plan", "net.json", "--capacity", EVIL],
    ["plan", "net.json", "--alignment", EVIL],
    ["plan", "net.json", "--dims", EVIL],
    ["plan", "net.json", "--csv", f"{EVIL}/a.csv"],
    ["plan", "net.json", "--plot", f"a.{EVIL}"],
    ["plan", "net.json", "--plot", "a.svg", "--highlight", EVIL],
    ["plan", "net.json", "--zoom", EVIL],
    ["plan", "net.json", f"--{EVIL}"],
    [EVIL],
    ["explain", "net.json"],
    ["compare", "net.json", "--planners", "naive,auto"],
    ["compare", "net.json", "--planners", EVIL],
    ["diff", "a.json", "b.json"],
    ["diff", "a.json", EVIL],
    ["verify", f"{EVIL}.csv", "b.csv"],
    ["verify", "a.csv", "b.csv"],
]


@pytest.mark.few(10)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(printable, command)))
def test_commands(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.json").write_text(json.dumps(network()))
    memplan.plan(network()).to_json("a.json")
    memplan.plan(network(), "naive").to_json("b.json")
    memplan.plan(problem()).to_csv("a.csv")
    Path("b.csv").write_text("id,lower,upper,size,offset\na,0,1,1,0\n")
    with suppress(SystemExit):
        cli.main(command)
    said = capsys.readouterr()
    shown(said.out + said.err)


@pytest.mark.slow
def test_pictures_draw_names_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (figures.append(self), save(self, *a, **k))[1])
    plans = [memplan.plan(network(f"{MATHS}{k}.b.c"), planner) for k, planner in enumerate(["first_fit", "naive"])]
    for colour_by in ("buffer", "order", "kind", "op_type", "layer"):
        options: dict[str, Any] = {"colour_by": colour_by, "highlight": list(plans[0].problem.names)[:1]}
        plans[0].plot(title=MATHS, **options).figure.savefig(tmp_path / "plan.svg")
    memplan.draw.plot_plans(plans, titles=[MATHS, MATHS])[0].figure.savefig(tmp_path / "plans.svg")
    comparison = memplan.compare(network(MATHS), ["first_fit", "naive"])
    named = type(comparison)(MATHS, comparison.rows)
    named.save_picture(tmp_path / "compare.svg")
    named.plot(title=MATHS).figure.savefig(tmp_path / "titled.svg")
    sweep = memplan.sweep({MATHS: network(MATHS)}, ["first_fit", "naive"], 1)
    sweep.save_picture(tmp_path / "sweep.svg")
    texts = [text for figure in figures for text in figure.findobj(Text) if "$" in text.get_text()]
    assert len(figures) >= 8
    assert len({text.get_text() for text in texts}) >= 5
    assert not [text.get_text() for text in texts if text.get_parse_math()]


@pytest.mark.parametrize("show", ["explain", "diff"])
def test_pages_draw_names_as_they_are(show: str, tmp_path: Path) -> None:
    plan, other = memplan.plan(network(MATHS)), memplan.plan(network(MATHS), "naive")
    (plan.explain() if show == "explain" else other.diff(plan)).to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").exists()


def test_text() -> None:
    assert printable("größe 重") == "größe 重"
    assert printable("größe\n\x1b") == r"größe\n\x1b"
    assert one_line("a\n  b\x1b\n\n") == r"a; b\x1b"


@pytest.mark.parametrize(
    "code",
    [0x0, 0x1F, 0x20, 0x7E, 0x7F, 0x80, 0x9F, 0xA0, 0xAD, 0xE9, 0x61C, 0x200B, 0x200E, 0x202E, 0x2066, 0xFEFF, 0x1F600],
)
def test_the_core_escapes_what_python_does(code: int) -> None:
    name = f"a{chr(code)}b"
    quoted = repr(_core.Tensor(name, 1)).removeprefix("Tensor(").partition(", bytes")[0]
    assert quoted == f"'{printable(name)}'" or chr(code) == "\xa0"
