"""Plans as C headers: for firmware that has its arena at compile time."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from .. import _core
from ..files import write_text
from ..plans.plan import Plan
from ..text import printable

# An assertion when it is compiled. C99 has none; there, an array of a negative size is an error that names it.
_CHECK = """\
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L)
#define {check}(name, holds, message) static_assert(holds, message)
#else
#define {check}(name, holds, message) typedef char name[(holds) ? 1 : -1]
#endif
"""


def write_c_header(plan: Plan, path: str | os.PathLike[str], *, prefix: str | None = None) -> None:
    """Write the constants of a plan; see `Plan.to_c_header`."""
    prefix, alignment = _prefix(path, prefix), _alignment(plan)
    lines = [*_tensors(plan, prefix, _stems(plan.tensors.names))]
    write_text(path, "\n".join(_file(prefix, len(plan.tensors), plan.peak, alignment, lines)))


def write_c_header_of_methods(
    methods: Mapping[str, Plan], whole: Plan, path: str | os.PathLike[str], *, prefix: str | None = None
) -> None:
    """Write the constants of several methods in one arena; see `MethodsPlan.to_c_header`."""
    prefix, alignment = _prefix(path, prefix), _alignment(whole)
    names = [f"{name}.{tensor}" for name, method in methods.items() for tensor in method.tensors.names]
    stems, lines = iter([*_stems(names)]), list[str]()
    for name, method in methods.items():
        lines.append(f'\n// Method "{printable(name)}"')
        lines += _tensors(method, prefix, islice(stems, len(method.tensors)))
    write_text(path, "\n".join(_file(prefix, len(names), whole.peak, alignment, lines)))


def _prefix(path: str | os.PathLike[str], prefix: str | None) -> str:
    if prefix is None:
        prefix = _identifier(Path(path).stem) or "PLAN"
        return f"PLAN_{prefix}" if prefix[0].isdigit() else prefix
    if not isinstance(prefix, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix):
        raise ValueError(f"prefix must be a name in C that begins with a letter, got {prefix!r}")
    return prefix


def _alignment(plan: Plan) -> int:
    alignment = math.lcm(1, *(int(each) for each in set(plan.problem.alignment.tolist())))
    if alignment & (alignment - 1):
        raise ValueError(f"an array in C is aligned to a power of two; the plan's buffers need {alignment} bytes")
    return alignment


def _file(prefix: str, count: int, peak: int, alignment: int, tensors: Sequence[str]) -> Iterator[str]:
    """The header: the arena, then a block per tensor."""
    arena, guard = f"{prefix}_ARENA", f"{prefix}_H"
    yield f"// Where {count} tensors lie in one arena, planned by memplan {_core.__version__}."
    yield "// NAME_OFFSET is the tensor's first byte, from the beginning of the arena, and NAME_BYTES is its size."
    yield f"// The array for it, in C11: static _Alignas({arena}_ALIGNMENT) unsigned char arena[{arena}_BYTES];"
    yield "// This takes C99 or later, or C++11 or later. In C++ it is alignas, in C99 a word of the compiler."
    yield f"#ifndef {guard}\n#define {guard}\n"
    yield "#include <assert.h>\n#include <stdint.h>\n"
    yield _CHECK.format(check=_check(prefix))
    yield f"#define {arena}_BYTES {peak}U"
    yield f"#define {arena}_ALIGNMENT {alignment}U"
    yield _checked(prefix, f"{arena}_FITS", f"{arena}_BYTES <= SIZE_MAX", "the arena is too large for this machine")
    yield from tensors
    yield f"\n#undef {_check(prefix)}"
    yield f"#endif  // {guard}"


def _check(prefix: str) -> str:
    return f"{prefix}_CHECK_"  # no tensor's macro ends so


def _checked(prefix: str, name: str, holds: str, message: str) -> str:
    """What the compiler checks."""
    return f'{_check(prefix)}({name}, {holds}, "{message}");'


def _tensors(plan: Plan, prefix: str, stems: Iterator[str]) -> Iterator[str]:
    """A block per tensor, and what the compiler checks of it."""
    arena = f"{prefix}_ARENA"
    whole = {(slot.offset, slot.bytes): slot.alignment for slot in plan}
    over: dict[str, list[str]] = {}
    for one in plan.overlaps:
        names = f'"{printable(one.input)}", which "{printable(one.op)}" still reads while it writes'
        over.setdefault(one.output, []).append(f"// It lies over {one.bytes} bytes of {names}.")
    for name, stem in zip(plan.tensors.names, stems, strict=True):
        slot, macro = plan.tensors[name], f"{prefix}_{stem}"
        yield f'\n// "{printable(name)}", steps [{slot.first}, {slot.last})'
        yield from over.get(name, ())
        yield f"#define {macro}_OFFSET {slot.offset}U"
        yield f"#define {macro}_BYTES {slot.bytes}U"
        inside = f"{macro}_BYTES <= {arena}_BYTES && {macro}_OFFSET <= {arena}_BYTES - {macro}_BYTES"
        yield _checked(prefix, f"{macro}_FITS", inside, f"{stem} ends beyond the arena")
        if (step := whole.get((slot.offset, slot.bytes), 1)) > 1:  # views begin where they must
            yield _checked(prefix, f"{macro}_ALIGNED", f"{macro}_OFFSET % {step}U == 0U", f"{stem} is not aligned")


def _stems(names: Sequence[str]) -> Iterator[str]:
    """What stands for each name: upper case, other characters as one underscore, a number where it is taken."""
    taken = {"ARENA"}
    for name in names:
        stem = plain = _identifier(name) or "TENSOR"
        number = 2
        while stem in taken:
            stem, number = f"{plain}_{number}", number + 1
        taken.add(stem)
        yield stem


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper().encode("ascii", "replace").decode()).strip("_")
