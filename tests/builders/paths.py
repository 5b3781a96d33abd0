"""Where the repository keeps what tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
DATA = TESTS / "data"
BENCHMARKS = TESTS / "benchmarks"
SHARED = ROOT.parent / "shared" / "instances"  # larger instances, beside the checkout
