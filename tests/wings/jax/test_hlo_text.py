"""The text form of HLO: what is read of it, and what is said where it is wrong."""

from __future__ import annotations

import random

import pytest

import memplan
from builders.hlo import BRANCHES, GPU, GPU_STEP, LOOP, OFFLOADED, SCHEDULED, SENT, TPU, TPU_STEP
from memplan.jax.reading import import_hlo
from memplan.jax.reading.shapes import array_of
from memplan.jax.reading.text import HloError, parse


def test_names_shapes_operands_and_attributes() -> None:
    module = parse(SCHEDULED, "net.hlo")
    assert module.name == "jit_step"
    assert module.attributes["is_scheduled"] == "true"
    entry = module.computations[module.entry]
    assert entry.root == "tuple.1"
    dot = entry.instructions["dot.1"]
    assert (dot.opcode, dot.operands, dot.shape.dims, dot.shape.order) == ("dot", ["x.1", "w.1"], (8, 32), (1, 0))
    assert dot.attributes["lhs_contracting_dims"] == "{1}"
    assert dot.attributes["metadata"] == '{op_name="dot, \\"a\\" {" stack_frame_id=1}'
    assert [shape.dims for shape in entry.instructions["tuple.1"].shape.leaves()] == [(16, 32), (8, 32)]
    assert module.frames[1] == ("/home/me/net.py", 12)


@pytest.mark.parametrize(
    ("text", "layout", "expected"),
    [
        ("f32[4,64]", "1,0", 1024),
        ("bf16[]", "", 2),
        ("pred[3]", "0", 3),
        ("s4[5]", "0", 5),
        ("s4[5]", "0:E(4)", 3),
        ("c64[2,2]", "0,1", 32),
        ("f8e4m3fn[7]", "0", 7),
        ("token[]", "", 0),
        ("f32[<=10,2]", "1,0", 80),
        ("f32[3,130]", "1,0:T(8,128)", 8 * 256 * 4),
        ("bf16[3,130]", "1,0:T(8,128)(2,1)S(1)", 8 * 256 * 2),
        ("f32[3,130]", "0,1:T(8,128)", 136 * 128 * 4),
        ("f32[16,8]", "0,1:T(8,128)", 4096),  # this and the next: a TPU's memory_analysis says the same
        ("f32[4]", "0:T(128)", 512),
        ("f32[]", ":T(128)", 512),
        ("bf16[4]", "0:T(256)(128)(2,1)", 512),
        ("bf16[1,6144]", "1,0:T(2,128)(2,1)", 2 * 6144 * 2),
        ("bf16[5,130]", "1,0:T(1,128)(2,1)", 5 * 2 * 256 * 2),  # two rows in a word, of which one is there
        ("f8e4m3fn[33,130]", "1,0:T(32,128)(4,1)", 64 * 256),
        ("f32[3,5]", "1,0:T(*,8)", 16 * 4),
        ("s8[3,5]", "1,0:L(8)", 16),
        ("f32[2,0]", "1,0", 0),
    ],
)
def test_bytes_of_shapes(text: str, layout: str, expected: int) -> None:
    assert array_of(text, layout).nbytes == expected


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("1,1", "the layout '1,1' must name each axis of"),
        ("1,0:T(0,8)", "the sizes of a tile, such as 8,128, got '0,8'"),
    ],
)
def test_layouts_that_cannot_be(layout: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        array_of("f32[3,5]", layout)


def test_lines_may_go_on_in_the_next() -> None:
    broken = SCHEDULED.replace(", lhs_con", ",\n    lhs_con").replace("{1,0} dot(", "{1,0}\n    dot(")
    broken = broken.replace("jit_step, ", "jit_step,\n  ")
    assert import_hlo(broken, "net.hlo") == import_hlo(SCHEDULED, "net.hlo")


def test_groups_along_axes_of_a_mesh() -> None:
    groups = "replica_groups=mesh['a'=2,'b'=2] {'a'}, dimensions={0}"
    module = parse(SCHEDULED.replace("rhs_contracting_dims={0}", groups), "net.hlo")
    attributes = module.computations["main"].instructions["dot.2"].attributes
    assert attributes["replica_groups"] == "mesh['a'=2,'b'=2] {'a'}"
    assert attributes["dimensions"] == "{0}"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda t: t.replace("HloModule", "Module"), "line 1: expected HloModule, got 'Module jit_step"),
        (
            lambda t: t.replace("dot(%x.1", "dot %x.1"),
            "line 21 of computation 'main': expected operands of dot in paren",
        ),
        (
            lambda t: t.replace("%x.1, %w.1)", "%x.1, %w.9)"),
            "line 21 of computation 'main': dot 'dot.1' reads 'w.9', which",
        ),
        (
            lambda t: t.replace("f32[8,32]{1,0} dot", "f32[8,-32]{1,0} dot"),
            "line 21 .*: the shape .* has a negative size",
        ),
        (
            lambda t: t.replace("f32[8,32]{1,0} dot", "f32[8,32]{1,0 dot"),
            "line 21 .*: expected the layout of a shape, such as .1,0., got",
        ),
        (lambda t: t.replace("%dot.1 =", "%x.1 ="), "line 21 .*: 'x.1' is defined twice"),
        (lambda t: t.replace("calls=%fused", "calls=%confused"), "memplan reads it"),
        (lambda t: t.split("ENTRY")[0] + "ENTRY ", "expected a name, got 'the end"),
        (lambda t: t[: t.index("FileNames")], "expected computations, got none"),
        (lambda t: "", "line 1: expected HloModule, got 'the end of the line'"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(changed, message: str) -> None:  # type: ignore[no-untyped-def]
    text = changed(SCHEDULED)
    if message == "memplan reads it":  # a fusion whose computation is not there writes over nothing
        assert import_hlo(text, "net.hlo")["ops"]
        return
    with pytest.raises(HloError, match=message) as caught:
        import_hlo(text, "net.hlo")
    assert str(caught.value).startswith("net.hlo: ")


def test_bodies_that_call_themselves() -> None:
    with pytest.raises(HloError, match="computation 'body' calls itself"):
        import_hlo(LOOP.replace("%sum = f32[4]{0} add(%copy.2, %x)", "%sum = f32[4]{0} call(%x), to_apply=%body"), "a")


def test_long_chains_of_what_shows_another() -> None:
    barriers = "".join(
        f"  %b{k} = (s32[], f32[4], f32[4]) opt-barrier(%{f'b{k - 1}' if k else 'c'})\n" for k in range(3000)
    )
    text = LOOP.replace("  %i = s32[] get-tuple-element(%c)", barriers + "  %i = s32[] get-tuple-element(%b2999)", 1)
    assert import_hlo(text, "a")["ops"]


def test_tuples_deep_inside_of_tuples() -> None:
    deep = 100_000
    for text in ("(" * deep, "(" * 250 + "f32[]" + ")" * 250):
        with pytest.raises(HloError):
            import_hlo(SCHEDULED.replace("f32[8,32]{1,0} dot", f"{text} dot"), "a")
    steps = "\n".join(f"  t{k} = (f32[1]) tuple(t{k - 1}, t{k - 1})" for k in range(1, 80))
    with pytest.raises(HloError, match="tuple 't1' has another shape than what it shows"):
        import_hlo(f"HloModule m\n\nENTRY e {{\n  t0 = f32[1] parameter(0)\n{steps}\n}}\n", "a")


def test_changed_text_is_read_or_refused(request: pytest.FixtureRequest) -> None:
    chance = random.Random(0)
    marks = '(){}[],=%:0123456789abcdefx-. "/*\n'
    refused = 0
    count = 2000 if request.config.getoption("--slow") else 150
    for _ in range(count):
        text = chance.choice([SCHEDULED, LOOP, BRANCHES, TPU, GPU, GPU_STEP, OFFLOADED, TPU_STEP, SENT])
        for _ in range(chance.randint(1, 3)):
            at, kind = chance.randrange(len(text)), chance.randrange(4)
            end = at + chance.randint(1, 30)
            if kind == 0:
                text = text[:at] + text[end:]
            elif kind == 1:
                text = text[:at] + "".join(chance.choices(marks, k=5)) + text[at:]
            elif kind == 2:
                text = text[:at] + chance.choice(marks) + text[at + 1 :]
            else:
                other = chance.randrange(len(text))
                text = text[:at] + text[other : other + 40] + text[at:]
        try:
            memplan.importers.graph_dict.graph_of(import_hlo(text, "a.hlo"), measured=True)
        except (memplan.errors.SourceError, memplan.errors.GraphError):
            refused += 1
    assert count / 3 < refused < count
