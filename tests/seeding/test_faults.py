"""The list of seeded faults fits the sources; that each is found is up to mutants.py itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.paths import TESTS
from seeding.faults import FAULTS
from seeding.source import DROP, FALSE, TRUE, Fault, mutated

CODE = """\
struct A {  // a( { is no function
  A(int b) : b_(b), c_{1} { run(b, ")"); }
  int run(int k, const char*) const {
    for (int i = 0; i < k; ++i)
      total(i /* all
               of them */);
    if (k < 2 && (b_ || k == 7)) return c_;
    return k;
  }
};
"""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_its_place_is_there_once(fault: Fault) -> None:
    file, text = mutated(fault)
    assert text != file.read_text(encoding="utf-8")
    assert not fault.found_by or (TESTS / fault.found_by).exists()


@pytest.mark.parametrize(
    ("where", "at", "becomes", "was", "now"),
    [
        ("run", "total(i);", "", "total(i /* all\n               of them */);", ""),
        ("A", "(b), c_{ 1", "(b), c_{2", "(b), c_{1", "(b), c_{2"),
        ("run", "total", DROP, CODE[CODE.index("for") : CODE.index("if")].rstrip(), ""),
        ("run", "k < 2", TRUE, "k < 2", "true"),
        ("run", "k ==", FALSE, "k == 7", "false"),
        ("run", "< 2", DROP, "if (k < 2 && (b_ || k == 7)) return c_;", ""),
    ],
)
def test_what_becomes_of_code(
    where: str, at: str, becomes: str, was: str, now: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.cpp").write_text(CODE)
    monkeypatch.setattr("seeding.source.CORE", tmp_path)
    assert CODE.count(was) == 1
    assert mutated(Fault("", f"a {where}", at, becomes)) == (tmp_path / "a.cpp", CODE.replace(was, now))


@pytest.mark.parametrize("at", ["k", "nothing", "b_(b)"])
def test_a_place_that_is_not_there_once_is_refused(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.cpp").write_text(CODE)
    monkeypatch.setattr("seeding.source.CORE", tmp_path)
    with pytest.raises(ValueError, match=f"expected once in a run, found {5 if at == 'k' else 0} times"):
        mutated(Fault("", "a run", at, ""))
