"""Calls of operators of torch in pieces make what whole ones make."""

from __future__ import annotations

from random import Random

import pytest
import torch

from builders.loop_cases import cases
from memplan.torch.reading.loops import RULES
from oracles.pieces import compare

CASES = cases(sorted(RULES))


@pytest.mark.few(100)
@pytest.mark.parametrize("name", sorted(CASES))
def test_pieces_make_what_the_whole_makes(name: str, request: pytest.FixtureRequest) -> None:
    ran = 0
    for seed in range(40 if request.config.getoption("--slow") else 3):
        chance = Random(f"{name} {seed}")
        torch.manual_seed(seed)
        ran += compare(CASES[name](chance), chance)[0]
    assert ran
