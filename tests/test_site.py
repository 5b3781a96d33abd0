"""The documentation site: built with warnings as errors, complete, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import memplan
from builders.paths import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason="needs memplan[docs]")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-d", out / "read", ROOT / "docs", out]
    built = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return out


def test_every_planner_has_its_section(site: Path) -> None:
    page = (site / "planners.html").read_text(encoding="utf-8")
    for row in memplan.planners():
        assert f'id="{row.name.replace("_", "-")}"' in page
        for parameter in row.parameters:
            assert f"{parameter.name}={parameter.standard}<" in re.sub(r"</?span[^>]*>", "", page)
    assert "[[" not in page


def test_every_public_name_is_documented(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    for name in memplan.__all__:
        assert name == "__version__" or f'id="memplan.{name}"' in page, name


def test_every_page_is_in_the_contents(site: Path) -> None:
    contents = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f'href="{page.stem}.html"' in contents or page.stem == "index"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"
