"""What kernels allocate: estimates of single operators beside what torch gives out, byte by byte."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import memplan  # noqa: E402
from builders.counted_cases import calls, kinds_of, layouts_of, operators  # noqa: E402
from oracles.allocator import peaks  # noqa: E402
from oracles.poison import Case  # noqa: E402

# Operators whose fake kernels refuse some layouts that the kernels take
REFUSED = {"_reshape_alias", "native_group_norm_backward"}
# Convolutions of oneDNN hold lists and sums that depend on the processor: test_estimate.py compares whole ones
CONVOLUTIONS = {"convolution", "convolution_backward"}


class One(torch.nn.Module):
    """A network of one operator."""

    def __init__(self, func: Any) -> None:
        super().__init__()
        self.func = func

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)


def all_of(name: str) -> list[tuple[str, str]]:
    """Kinds and layouts."""
    return list(itertools.product(kinds_of(name), layouts_of(name)))


def said(case: Case) -> int:
    found = memplan.estimate(One(case.func), args=tuple(case.args), kwargs=case.kwargs)
    return found.total - found.kept


def run(case: Case) -> Any:
    with torch.no_grad():
        return case.func(*case.args, **case.kwargs)


def differences(found: dict[str, Case]) -> dict[str, tuple[int, int]]:
    """Bytes that are said and given out, of calls where these differ."""
    given = peaks([lambda case=case: run(case) for case in found.values()])
    differing: dict[str, tuple[int, int]] = {}
    for (name, case), real in zip(found.items(), given, strict=True):
        try:
            told = said(case)
        except memplan.errors.SourceError:
            if name.partition(",")[0] not in REFUSED:
                raise
            continue
        if told != real:
            differing[name] = told, real
    return differing


@pytest.mark.slow
def test_each_operator_allocates_what_is_said() -> None:
    """A few kinds and layouts of each."""
    found: dict[str, Case] = {}
    for name in sorted(set(operators()) - CONVOLUTIONS):
        every = all_of(name)
        chosen = Random(name).sample(every, len(every))
        made = dict(itertools.islice(calls(name, 0, [("float32", "as made"), *chosen]), 2))
        assert made, f"{name}: no call of it works: give it a maker in counted_cases.py"
        found |= made
    assert len(found) > 500
    assert differences(found) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(operators()) - CONVOLUTIONS))
def test_each_operator_allocates_what_is_said_in_all_dtypes_and_layouts(name: str) -> None:
    found = {key: case for seed in range(2) for key, case in calls(name, seed, all_of(name))}
    assert differences(found) == {}
