"""The shape of the core: data flows one way, and what includes what says so. That of the package: test_package.py."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INCLUDE = ROOT / "cpp" / "include" / "memplan"
SOURCE = ROOT / "cpp" / "src"

# Concept -> what its header and source may include, besides units and errors. A new concept needs a row here.
UPSTREAM: dict[str, set[str]] = {
    "units": set(),
    "errors": set(),
    "layout": set(),
    "branches": set(),
    "graph": {"branches", "layout"},
    "graph/branch_runs": {"graph"},
    "graph/graph_checks": {"graph"},
    "graph/takeovers": set(),
    "happens_before": {"graph", "graph/takeovers"},
    "storage/groups": set(),
    "problem/max_tree": set(),
    "problem/sorting": set(),
    "storage/forming": {"graph", "happens_before", "storage", "storage/groups"},
    "storage/sharing": {"graph", "happens_before", "storage", "storage/forming", "problem/max_tree"},
    "storage": {"graph", "happens_before"},
    "liveness": {"graph", "storage"},
    "storage/contents": {"graph", "storage"},
    "sharing_bound": {"graph", "happens_before", "storage", "storage/contents", "liveness", "problem/reserved"},
    "conflicts": set(),
    "problem": {"branches", "conflicts", "layout", "problem/rectangles", "problem/reserved"},
    "problem/rectangles": set(),
    "problem/reserved": {"layout", "problem/rectangles"},
    "problem/fixed_bound": {"problem", "bounds"},
    "problem/shift": {"problem", "occupancy"},
    "problem/unbranched": {"problem"},
    "problem/fold": {"problem", "problem/unbranched", "storage/groups"},
    "buffers": {"graph", "storage", "liveness", "problem", "storage/laying"},
    "storage/laying": {"graph", "problem", "storage"},
    "problem/begins": set(),
    "partial_order": {"problem", "planner", "placing/deadline", "problem/begins"},
    "storage/choosing": {"graph", "storage", "buffers", "bounds"},
    "problem/run_bytes": set(),
    "bounds": {"problem", "problem/run_bytes", "problem/sorting"},
    "problem/clique_search": {"search/chance"},
    "problem/antichain": {"problem/clique_search"},
    "clique": {
        "problem",
        "planner",
        "bounds",
        "placing/deadline",
        "placing/orders",
        "placing/section_lives",
        "problem/antichain",
        "problem/clique_search",
        "problem/order_rows",
        "problem/unbranched",
    },
    "problem/order_rows": {"problem", "placing/deadline", "problem/clique_search"},
    "occupancy": {"problem", "problem/sorting"},
    "plan": {"problem"},
    "infeasible": {"graph", "problem", "buffers", "bounds", "clique", "plan"},
    "parameters": set(),
    "planner": {"problem", "parameters", "problem/fold", "problem/shift", "problem/unbranched"},
    "placing/deadline": {"planner"},
    "planners/planners": {"planner", "placing/deadline"},
    "placing/free_blocks": set(),
    "placing/orders": {"placing/deadline", "problem/sorting"},
    "placing/neighbours": {"placing/orders", "placing/deadline"},
    "placing/placed": {"problem", "occupancy", "placing/deadline"},
    "placing/in_order": {"planner", "placing/deadline", "placing/orders", "placing/placed"},
    "placing/simulation": {"planner", "placing/deadline", "placing/free_blocks", "problem/sorting"},
    "placing/best_so_far": {"plan", "planner", "placing/deadline", "placing/in_order", "placing/simulation"},
    "placing/pools": {"placing/orders"},
    "search/chance": set(),
    "search/luby": set(),
    "placing/section_lives": {"placing/deadline", "placing/orders", "problem/max_tree"},
    "placing/by_offset": {"placing/section_lives", "problem/sorting"},
    "search/repair": {"problem", "placing/by_offset", "search/chance", "placing/placed"},
    "search/squeaky_search": {"bounds", "plan", "placing/deadline", "placing/in_order", "search/luby", "search/repair"},
    "search/sections": {"placing/deadline", "placing/orders", "placing/section_lives"},
    "search/floors": {"search/sections", "search/trail"},
    "search/marks": set(),
    "search/trail": set(),
    "search/valleys": {"search/floors", "search/marks"},
    "search/refutations": set(),
    "search/record": set(),
    "search/valley_search": {
        "search/floors",
        "search/valleys",
        "search/refutations",
        "search/record",
        "search/chance",
        "placing/deadline",
    },
    "search/order_search": {"problem", "plan", "placing/deadline", "placing/orders", "search/chance"},
    "search/pairs": {"problem", "placing/deadline", "placing/orders"},
    "search/obstacles": {"problem", "placing/deadline", "placing/orders", "search/pairs"},
    "search/ejection_search": {"plan", "placing/orders", "search/chance", "search/obstacles"},
    "search/pair_record": {"clique"},
    "search/pair_search": {
        "problem",
        "clique",
        "search/chance",
        "search/pair_record",
        "search/pairs",
        "placing/deadline",
    },
    "search/pair_squeeze": {"plan", "search/pair_search"},
    "search/stack_tree": set(),
    "search/stack_search": {"placing/deadline", "search/chance", "search/sections", "search/stack_tree"},
    "search/squeeze": {"search/luby", "search/stack_search", "search/valley_search"},
    "search/window_repair": {
        "occupancy",
        "placing/deadline",
        "placing/orders",
        "search/luby",
        "search/repair",
        "search/squeaky_search",
        "search/squeeze",
    },
    "search/bands": {
        "problem",
        "placing/deadline",
        "placing/orders",
        "problem/clique_search",
        "problem/order_rows",
        "search/pairs",
    },
    "search/member": {"planner", "placing/deadline"},
    "search/band_member": {"clique", "placing/orders", "search/member", "search/bands"},
    "planners/squeaky_wheel": {"bounds", "planners/planners", "placing/best_so_far", "search/squeaky_search"},
    "planners/valley": {"plan", "planners/planners", "placing/best_so_far", "search/squeeze"},
    "near": {"problem", "planner", "placing/orders", "placing/placed"},
    "keep/fewest_moves": set(),
    "keep/wishes": {"problem", "problem/sorting"},
    "keep": {
        "near",
        "placing/deadline",
        "placing/orders",
        "plan",
        "plan/attempt",
        "planner",
        "problem",
        "problem/fold",
        "registry",
        "verify",
        "keep/fewest_moves",
        "keep/wishes",
    },
    "search/ground": {"problem"},
    "search/around_pins": {
        "bounds",
        "plan",
        "planner",
        "planners/planners",
        "placing/best_so_far",
        "placing/in_order",
        "problem/fixed_bound",
        "search/ground",
    },
    "search/members": {
        "search/ejection_search",
        "search/member",
        "search/order_search",
        "search/pair_squeeze",
        "search/squeaky_search",
        "search/squeeze",
    },
    "search/portfolio_search": {
        "bounds",
        "plan",
        "planner",
        "placing/deadline",
        "placing/in_order",
        "planners/planners",
        "search/band_member",
        "search/member",
        "search/members",
        "search/sections",
        "search/window_repair",
    },
    "search/band_rounds": {
        "placing/best_so_far",
        "planners/planners",
        "search/band_member",
        "search/member",
        "search/portfolio_search",
    },
    "planners/portfolio": {
        "placing/best_so_far",
        "planners/planners",
        "search/around_pins",
        "search/band_rounds",
        "search/portfolio_search",
    },
    "order/possible_everywhere": {"graph", "storage", "storage/sharing"},
    "order/contents_model": {"graph", "storage", "happens_before", "storage/contents", "order/possible_everywhere"},
    "search/max_flow": {"placing/deadline"},
    "order/cuts": {"order/contents_model", "placing/deadline", "search/max_flow"},
    "order/lists": {"order/contents_model", "placing/deadline"},
    "order/blocks": {"happens_before", "order/contents_model", "placing/deadline"},
    "order/ideals": {"order/contents_model", "placing/deadline"},
    "order/telling": {"order_info"},
    "order/exact_search": {
        "order/blocks",
        "order/contents_model",
        "order/ideals",
        "order/telling",
        "placing/deadline",
    },
    "order/improving": {
        "order/blocks",
        "order/contents_model",
        "order/cuts",
        "order/ideals",
        "order/telling",
        "placing/deadline",
    },
    "order/starts": {"order/blocks", "order/improving", "order/lists", "order/rules"},
    "order/traces": {"order/contents_model", "order/cuts"},
    "order/bound": {"order/contents_model", "order/cuts", "order/traces", "placing/deadline", "order_bound"},
    "order_bound": {"graph", "storage", "order/contents_model", "placing/deadline", "problem/reserved"},
    "order_info": {"parameters"},
    "order/rules": {
        "order_info",
        "parameters",
        "order/blocks",
        "order/contents_model",
        "order/telling",
        "placing/deadline",
    },
    "order_registry": {"order_info", "parameters", "order/lists", "order/rules"},
    "order": {
        "graph",
        "storage",
        "happens_before",
        "buffers",
        "bounds",
        "placing/deadline",
        "order_info",
        "order_registry",
        "order/contents_model",
        "order/rules",
    },
    "again": set(),
    "fit/fit_model": {"graph", "storage", "again", "order/contents_model"},
    "fit/schedule": {"fit/fit_model"},
    "fit/candidates": {"fit/schedule"},
    "fit/cover": {"fit/fit_model", "fit/schedule"},
    "fit/exact": {"fit/schedule"},
    "fit/moments": {"fit/cover", "placing/deadline", "search/max_flow"},
    "fit/prices": {"fit/cover", "placing/deadline", "search/ascent"},
    "fit/live_schedule": {"fit/schedule"},
    "fit/anneal": {"fit/live_schedule", "placing/deadline", "search/chance"},
    "fit/fit_search": {"fit/anneal", "fit/candidates", "placing/deadline", "search/chance"},
    "fit/rewrite": {"graph", "again", "fit/schedule"},
    "fit/least": {"fit", "graph", "infeasible", "placing/deadline"},
    "fit": {
        "again",
        "graph",
        "storage",
        "happens_before",
        "buffers",
        "bounds",
        "infeasible",
        "placing/deadline",
        "fit/fit_model",
        "fit/cover",
        "fit/exact",
        "fit/fit_search",
        "fit/moments",
        "fit/prices",
        "fit/rewrite",
    },
    "registry": {"planner", "planners/planners"},
    "search/ascent": {"placing/deadline"},
    "memories/wholes": {
        "infeasible",
        "memories",
        "placing/deadline",
        "placing/placed",
        "problem/fold",
        "storage/groups",
    },
    "memories/demand": {"memories", "memories/wholes", "problem"},
    "memories/memory_prices": {"memories", "memories/demand", "memories/wholes", "placing/deadline", "search/ascent"},
    "memories/pool_placer": {"memories", "memories/wholes", "bounds", "plan", "placing/deadline"},
    "memories/assignment": {
        "memories",
        "memories/demand",
        "memories/memory_prices",
        "memories/pool_placer",
        "memories/wholes",
        "placing/deadline",
    },
    "memories/sweep": {
        "memories",
        "memories/demand",
        "memories/memory_prices",
        "memories/wholes",
        "placing/deadline",
    },
    "memories/exchange": {"memories/demand", "memories/memory_prices", "memories/wholes", "placing/deadline"},
    "memories/insertion": {
        "memories",
        "memories/assignment",
        "memories/wholes",
        "placing/deadline",
        "placing/placed",
    },
    "memories": {"bounds", "infeasible", "placing/deadline", "plan", "planner", "plan/attempt", "problem", "registry"},
    "refute": {"problem", "planner", "search/valley_search"},
    "refute_pairs": {
        "bounds",
        "problem",
        "planner",
        "clique",
        "problem/fold",
        "search/ground",
        "search/pair_search",
        "search/pair_squeeze",
    },
    "pricing/meetings": {"problem", "problem/max_tree"},
    "pricing/priced_layout": {"placing/deadline", "pricing/meetings"},
    "pricing/price_search": {
        "placing/deadline",
        "plan",
        "pricing/meetings",
        "pricing/priced_layout",
        "search/chance",
    },
    "pricing/open_pairs": {"pricing", "pricing/meetings", "problem/fold"},
    "pricing/cheapest_set": set(),
    "pricing/cores": {"infeasible", "placing/deadline", "pricing", "pricing/cheapest_set", "solve"},
    "pricing/groups_apart": {
        "placing/deadline",
        "placing/orders",
        "pricing",
        "pricing/open_pairs",
        "problem/clique_search",
        "search/chance",
    },
    "pricing/group_bound": {"placing/deadline", "pricing", "pricing/groups_apart", "search/ascent"},
    "pricing": {
        "bounds",
        "placing/deadline",
        "plan",
        "planner",
        "problem",
        "problem/fold",
        "problem/unbranched",
        "solve",
        "verify",
    },
    "verify": {"problem", "problem/sorting"},  # whose result it checks
    "replay": {"graph"},
    "reuse": {"graph", "happens_before", "problem", "plan", "replay", "graph/takeovers"},
    "plan/attempt": {"plan", "planner", "problem", "registry", "solve", "verify"},
    "plan/solve_graph": {
        "graph/branch_runs",
        "storage/choosing",
        "graph",
        "storage",
        "happens_before",
        "buffers",
        "sharing_bound",
        "bounds",
        "plan",
        "infeasible",
        "planner",
        "registry",
        "replay",
        "solve",
        "plan/attempt",
    },
    "solve_order": {"order", "order_bound", "order_registry", "plan/attempt", "registry", "solve"},
    "solve": {
        "graph",
        "problem",
        "buffers",
        "bounds",
        "clique",
        "plan",
        "infeasible",
        "planner",
        "problem/fixed_bound",
        "problem/fold",
        "problem/reserved",
        "problem/unbranched",
        "registry",
        "verify",
        "replay",
    },
}
A_PLANNER = {
    "problem",
    "plan",
    "bounds",
    "problem/sorting",
    "placing/best_so_far",
    "placing/neighbours",
    "placing/orders",
    "planner",
    "planners/planners",
    "placing/simulation",
    "placing/free_blocks",
    "search/chance",
    "placing/in_order",
    "placing/placed",
    "problem/max_tree",
    "placing/pools",
}
AN_ORDER = {  # a row's file
    "order/blocks",
    "order/bound",
    "order/contents_model",
    "order/exact_search",
    "order/improving",
    "order/lists",
    "order/rules",
    "order/starts",
}
OWN_CHECKS = {  # private headers of a source, which see its public one
    "graph": {"graph/graph_checks"},
    "order_bound": {"order/bound"},
    "memories": {"memories/assignment", "memories/demand", "memories/pool_placer", "memories/wholes"},
    "pricing": {
        "pricing/cores",
        "pricing/group_bound",
        "pricing/meetings",
        "pricing/open_pairs",
        "pricing/price_search",
    },
    "memories/assignment": {"memories/exchange", "memories/insertion", "memories/sweep"},
    "memories/exchange": {"memories/insertion", "search/chance"},
    "memories/sweep": {"memories/insertion"},
    "storage": {"storage/forming", "storage/sharing"},
    "solve": {"plan/attempt"},
}


def sources() -> list[Path]:
    return sorted([*INCLUDE.glob("*.hpp"), *SOURCE.rglob("*.hpp"), *SOURCE.rglob("*.cpp")])


def concept(path: Path) -> str:
    """A public header and its source share the header's name; what is private goes by its folder too."""
    if (INCLUDE / f"{path.stem}.hpp").exists():
        return path.stem
    return path.relative_to(SOURCE).with_suffix("").as_posix()


def included(path: Path) -> set[str]:
    """The project's headers that a file includes, as concepts."""
    names = re.findall(r'^\s*#\s*include\s*"([^"]+)\.hpp"', path.read_text(), re.MULTILINE)
    return {name.removeprefix("memplan/") for name in names}


def allowed(name: str) -> set[str]:
    if name not in UPSTREAM and name.startswith("planners/"):
        return A_PLANNER | {"units", "errors"}
    if name not in UPSTREAM and name.startswith("order/"):
        return AN_ORDER | {"units", "errors"}
    return UPSTREAM[name] | {"units", "errors"}


@pytest.mark.parametrize("path", [path for path in sources() if path.stem != "memplan"], ids=concept)
def test_includes_point_upstream_only(path: Path) -> None:
    name = concept(path)
    own = {name} | (OWN_CHECKS.get(name, set()) if path.suffix == ".cpp" else set())
    assert included(path) - own <= allowed(name)


def test_the_drawing_has_no_cycle() -> None:
    done: set[str] = set()
    while len(done) < len(UPSTREAM):
        ready = {name for name, needs in UPSTREAM.items() if name not in done and needs <= done}
        assert ready, f"a cycle among {set(UPSTREAM) - done}"
        done |= ready


def test_the_drawing_is_of_what_exists() -> None:
    assert set(UPSTREAM) <= {concept(path) for path in sources()}


def reachable(path: Path) -> set[str]:
    """Everything that a file sees through its includes."""
    seen: set[str] = set()
    waiting = included(path)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        header = INCLUDE / f"{name}.hpp" if (INCLUDE / f"{name}.hpp").exists() else SOURCE / f"{name}.hpp"
        waiting |= included(header) - seen
    return seen


def test_the_checks_share_no_code_with_what_they_check() -> None:
    made_by = {
        "occupancy",
        "happens_before",
        "graph/takeovers",
        "liveness",
        "storage",
        "buffers",
        "planner",
        "registry",
        "bounds",
        "solve",
        "reuse",
    }
    for check, other in (("verify", "replay"), ("replay", "verify")):
        sees = reachable(SOURCE / "checks" / f"{check}.cpp")
        assert not sees & made_by
        assert other not in sees
        assert not any(name.startswith(("planners/", "placing/", "search/")) for name in sees)
    assert "problem" not in reachable(SOURCE / "checks" / "replay.cpp")


def test_planners_see_problems_only() -> None:
    for path in {*(SOURCE / "planners").iterdir()} - {SOURCE / "planners" / "registry.cpp"}:
        assert not reachable(path) & {
            "graph",
            "storage",
            "liveness",
            "buffers",
            "verify",
            "replay",
            "registry",
            "solve",
        }


def test_one_header_includes_the_whole_public_interface() -> None:
    assert included(INCLUDE / "memplan.hpp") == {path.stem for path in INCLUDE.glob("*.hpp")} - {"memplan"}


def test_the_core_knows_no_python_and_no_framework() -> None:
    for path in sources():
        includes = re.findall(r"^\s*#\s*include\s*<([^>]+)>", path.read_text(), re.MULTILINE)
        assert not [name for name in includes if "/" in name or name.endswith((".h", ".hpp"))], path
        assert not re.search(r"pybind11|Python\.h|\bpy::", path.read_text()), path


def test_every_header_is_guarded_and_opens_with_what_it_is() -> None:
    for path in [*INCLUDE.glob("*.hpp"), *SOURCE.rglob("*.hpp")]:
        text = path.read_text()
        assert text.startswith("// "), path
        assert "#pragma once" in text, path


def test_every_planner_has_a_file_and_every_file_a_row() -> None:
    rows = re.findall(r'^\s*\{"(\w+)"', (SOURCE / "planners" / "registry.cpp").read_text(), re.MULTILINE)
    files = {path.stem for path in (SOURCE / "planners").glob("*.cpp")} - {"planner", "registry"}
    assert {"portfolio" if row == "auto" else row for row in rows} == files
    for stem in files:
        text = (SOURCE / "planners" / f"{stem}.cpp").read_text()
        assert "// Complexity:" in text
        assert "Guarantee:" in text


def test_every_order_has_a_file() -> None:
    """But for lists, whose rules are in one file; each says first what it is."""
    table = (SOURCE / "order" / "order_registry.cpp").read_text()
    rows = set(re.findall(r'^\s*\{"(\w+)"', table, re.MULTILINE))
    rows |= set(re.findall(r'^\s*\{"(\w+)",$', table, re.MULTILINE))
    lists = set(re.findall(r'\{"(\w+)", ListKey', (SOURCE / "order" / "lists.cpp").read_text()))
    assert len(lists) == 8
    for row in rows - lists:
        assert (SOURCE / "order" / f"{row}.cpp").read_text().startswith(f"// {row}: ")
    assert lists < rows


# The repository

ROOT_HOLDS = {
    ".ci",
    ".clang-format",
    ".github",
    ".gitignore",
    "CHANGELOG.md",
    "CMakeLists.txt",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "cpp",
    "docs",
    "notebooks",
    "pyproject.toml",
    "python",
    "tests",
}
MAY_COME = {".pre-commit-config.yaml"}


def test_the_root_holds_what_is_listed() -> None:
    """What scripts and sessions write there by mistake is not committed."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git repository")
    assert {name.partition("/")[0] for name in listed.split("\0") if name} - MAY_COME == ROOT_HOLDS


def test_the_map_of_contributing_names_what_is_there() -> None:
    """Every public header, every module and package of Python; and nothing that is gone."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    page = page[page.index("## Where things live") : page.index("## Add a planner")]
    named = set(re.findall(r"`([\w./]+(?:\.hpp|\.cpp|\.py|/))`", page))
    files = {path.name for folder in ("cpp", "python", "tests") for path in (ROOT / folder).rglob("*.*p*")}
    package = ROOT / "python" / "memplan"
    for name in named:
        places = (
            ROOT / name,
            package / name,
            package / "run" / name,
            package / "facts" / name,
            package / "run/eager" / name,
        )
        assert any(place.exists() for place in places) or ("/" not in name and name in files), name
    headers = {path.name for path in INCLUDE.glob("*.hpp")} - {"memplan.hpp"}
    modules = {path.name + "/" * path.is_dir() for path in package.iterdir() if not path.name.startswith(("_", "py"))}
    assert not (headers | modules) - named - {"examples/"}, "name it in CONTRIBUTING.md"
