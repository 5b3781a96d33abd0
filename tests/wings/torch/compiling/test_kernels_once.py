"""Kernels that differ in whole numbers alone are compiled once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._inductor.async_compile import AsyncCompile  # noqa: E402
from torch._inductor.codecache import CppPythonBindingsCodeCache  # noqa: E402

from memplan.torch.compiling import kernels_once as alike  # noqa: E402

HEAD = "#include <array>\n#include <cstdint>\n"
PLAIN = """extern "C" void kernel(const float* in_ptr0,
                       float* out_ptr0)
{{
    for (int64_t x0 = 0L; x0 < static_cast<int64_t>(2L); x0 += 1L)
        out_ptr0[x0] = in_ptr0[static_cast<int64_t>({0}L + x0)] + {1}L + {0}L;
}}"""
CONSTANT = """extern "C" void kernel(const float* in_ptr0, float* out_ptr0)
{{
    std::array<float, {0}L> own;
    out_ptr0[0] = in_ptr0[0] + own.size();
}}"""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The codes that are compiled, by two threads."""
    by_torch, codes = CppPythonBindingsCodeCache.load_pybinding_async, list[str]()

    def noted(takes: Any, code: str, **how: Any) -> Any:
        codes.append(code)
        return by_torch(takes, code, **how)

    monkeypatch.setattr(CppPythonBindingsCodeCache, "load_pybinding_async", noted)
    with torch._inductor.config.patch(compile_threads=2):
        yield codes


def functions(*codes: str) -> list[Any]:
    with alike.kernels_once():
        asked = [AsyncCompile().cpp_pybinding(["const float*", "float*"], HEAD + code) for code in codes]
        return [kernel.result() for kernel in asked]


def results(found: list[Any]) -> list[list[float]]:
    x, made = torch.arange(10.0), []
    for function in found:
        made.append(torch.zeros(2))
        function(x, made[-1])
    return [y.tolist() for y in made]


def test_kernels_that_read_other_rows_are_compiled_once(compiled: list[str]) -> None:
    found = functions(PLAIN.format(3, 5), PLAIN.format(3, 7), PLAIN.format(8, 5))
    assert results(found) == [[11.0, 12.0], [13.0, 14.0], [21.0, 22.0]]
    [code] = compiled
    assert "const int64_t memplan_n0, const int64_t memplan_n1)" in code
    assert code.count("memplan_n0") == 3  # the same number has one name
    assert "static_cast<int64_t>(2L)" in code  # where they do not differ, nothing changes


def test_equal_and_other_kernels_stay_as_they_are(compiled: list[str]) -> None:
    codes = [PLAIN.format(1, 2), PLAIN.format(1, 2), PLAIN.format(1, 2).replace("+ 2L", "- 2L")]
    assert results(functions(*codes)) == [[4.0, 5.0], [4.0, 5.0], [0.0, 1.0]]
    assert {code.removeprefix(HEAD) for code in compiled} == set(codes)


def test_where_a_number_must_be_known_kernels_are_compiled_alone(compiled: list[str]) -> None:
    assert results(functions(CONSTANT.format(2), CONSTANT.format(3))) == [[2.0, 0.0], [3.0, 0.0]]
    assert len(compiled) == 3


def test_kernels_of_others_are_left_to_torch(compiled: list[str]) -> None:
    functions(PLAIN.format(0, 1))
    compiled.clear()
    kernels = [AsyncCompile().cpp_pybinding(["const float*", "float*"], HEAD + PLAIN.format(k, 9)) for k in (0, 1)]
    assert results([kernel.result() for kernel in kernels]) == [[9.0, 10.0], [11.0, 12.0]]
    assert len(compiled) == 2
