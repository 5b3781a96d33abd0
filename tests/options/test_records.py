"""Options are declared once: what functions take, what they say of it, and what does not go together."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import memplan
from memplan.options import keywords
from memplan.options.declaring import options_of
from memplan.options.records import RANGED
from memplan.options.taking import CALLBACKS, EXCLUDED, NEEDED, OF_GRAPHS, RECORDS, TAKES, request

ALL = {one.name for one in options_of(*RECORDS)}


def test_what_type_checkers_see_is_what_is_declared(tmp_path: Path) -> None:
    code = "import memplan.options.__main__ as main; print(main.keywords(), end='')"
    written = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert Path(keywords.__file__).read_text(encoding="utf-8") == written


def test_every_option_is_in_one_record_and_explained() -> None:
    names = [one.name for one in options_of(*RECORDS)]
    assert len(names) == len(set(names))
    for record in RECORDS:
        for one in options_of(record):
            assert one.metadata["text"].endswith("."), one.name
            assert f"\n{one.name}\n    " in (record.__doc__ or "")


def test_the_help_of_plan_names_all_options_and_fits_a_screen() -> None:
    text = inspect.getdoc(memplan.plan) or ""
    assert set(re.findall(r"`(\w+)`", text[text.index("- `memplan.options.Reading`") : text.index("Returns\n")])) == ALL
    assert len(text.splitlines()) < 60


def test_tables_speak_of_options() -> None:
    known = {*ALL, RANGED}
    assert all({one, other} <= known for one, other, _ in (*EXCLUDED, *NEEDED))
    assert set(OF_GRAPHS) <= ALL
    assert all(takes <= ALL for takes in TAKES.values())


def test_what_is_called_while_a_plan_is_made_is_marked() -> None:
    called = {one.name for one in options_of(*RECORDS) if "Callable[" in str(one.type)}
    assert called == set(CALLBACKS)


EXAMPLES: dict[str, Any] = {"keep": {"a": 0}, "start": {"a": 0}, "pools": [1], "price": [("a", "b", 1)], "capacity": 8}
EXAMPLES |= {"on_improvement": print, "accesses": [1], RANGED: {"n": (1, 2)}}


@pytest.mark.parametrize(("one", "other", "why"), EXCLUDED)
def test_options_that_do_not_go_together_are_refused(one: str, other: str, why: str) -> None:
    assert {one, other} <= set(EXAMPLES), "EXAMPLES need one of each"
    asked = {name if name != RANGED else "dims": EXAMPLES[name] for name in (one, other)}
    asked |= {"pools": [1]} if "accesses" in asked else {}
    with pytest.raises(TypeError, match=f"option .* does not go with .*{re.escape(why)}"):
        request("plan", asked)


def test_an_unknown_option_is_refused_with_what_may_be_meant() -> None:
    with pytest.raises(TypeError, match=r"plan takes no option 'alignmet'; did you mean 'alignment'\?"):
        memplan.plan("example:gpt2_infer", alignmet=8)  # type: ignore[call-arg]
