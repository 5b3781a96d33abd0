"""pushdown is megengine, by its name in MegEngine's source."""

from __future__ import annotations

from hypothesis import given

import memplan
from strategies import BOUNDED, columns


@given(columns())
@BOUNDED
def test_pushdown_is_megengine(problem: tuple[list[int], list[int], list[int], list[int]]) -> None:
    plans = [memplan.plan(memplan.Problem(*problem), name) for name in ("pushdown", "megengine")]
    assert plans[0].offsets.tolist() == plans[1].offsets.tolist()
