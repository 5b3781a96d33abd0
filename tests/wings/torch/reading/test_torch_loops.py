"""What the torch importer says of the loops of operators is true: operators are run with poison in rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
import torch._inductor.inductor_prims

from builders.loop_cases import cases
from memplan.torch.reading.loops import RULES, loops_of, read_by
from oracles.poison import Case, check, idle

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


@pytest.mark.parametrize(
    "name", ["_low_memory_max_pool_with_offsets", "_low_memory_max_pool_offsets_to_indices", "fma"]
)
def test_primitives_of_inductor_read_no_other_rows(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 8, dtype=torch.float64)
    how = [2, 2], [2, 2], [0, 0], [1, 1]
    args: dict[str, tuple[Any, ...]] = {
        "_low_memory_max_pool_with_offsets": (x, *how, False),
        "_low_memory_max_pool_offsets_to_indices": (
            *(torch.randint(4, (2, 3, 3, 4), dtype=torch.int8), [2, 2], [6, 8]),
            *how[1:],
        ),
        "fma": (x, x[0], x[:1, :, :1]),
    }
    case = Case(getattr(torch.ops.prims, name).default, args[name])
    assert check(case, loops_of, read_by, Random(0), 4, 20)


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
