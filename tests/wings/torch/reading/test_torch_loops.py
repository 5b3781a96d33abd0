"""What the torch importer says of the loops of operators is true: operators are run with poison in rows."""

from __future__ import annotations

from random import Random

import pytest
import torch

from builders.loop_cases import cases
from memplan.torch.reading.loops import RULES, loops_of, read_by
from oracles.poison import check, idle

CASES = cases(sorted(RULES))


@pytest.mark.few(100)
@pytest.mark.parametrize("name", sorted(CASES))
def test_no_row_is_read_that_is_not_named(name: str, request: pytest.FixtureRequest) -> None:
    many = request.config.getoption("--slow")
    found = 0
    for seed in range(60 if many else 3):
        chance = Random(f"{name} {seed}")
        torch.manual_seed(seed)
        found += check(CASES[name](chance), loops_of, read_by, chance, *((4, 20) if many else (2, 4)))
    assert found


@pytest.mark.few(100)
@pytest.mark.parametrize("name", sorted(CASES))
def test_each_row_that_is_named_counts(name: str, request: pytest.FixtureRequest) -> None:
    for seed in range(20 if request.config.getoption("--slow") else 1):
        torch.manual_seed(seed)
        assert not idle(lambda form=f"{name} {seed}": CASES[name](Random(form)), loops_of, Random(seed), draws=40)


def test_calls_of_one_form_have_loops_of_their_own_tensors() -> None:
    add = torch.ops.aten.add.Tensor
    for _ in range(2):
        x, y = torch.zeros(2, 3), torch.zeros(3)
        z = add(x, y)
        first, second = loops_of(add, (x, y), {}, z)
        assert first.inputs[0][0] is x
        assert second.inputs[1][0] is y
        assert second.writes[0][0] is z
    assert len(loops_of(add, (x, x), {}, add(x, x))) == 3
