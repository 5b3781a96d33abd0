"""Which rows of its input a Resize or Upsample reads, by its mode and its transformation of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ...importers import loops, windows
from .parameters import Parameters

_HALF = Fraction(1, 2)


def axes_of(
    parameters: Parameters, op_type: str, before: Sequence[int], after: Sequence[int]
) -> list[loops.Axis] | None:
    """The loops along the axes of the input; None if nothing is known. A loop is named by its axis."""
    scales = _scales(parameters, op_type, before, after)
    if scales is None or parameters.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    found: list[loops.Axis] = []
    for axis, (rows, made, scale) in enumerate(zip(before, after, scales, strict=True)):
        if scale == 1 and rows == made and _transformation(parameters, op_type) != "tf_crop_and_resize":
            found.append(str(axis))
        else:
            found.append(_resized(parameters, op_type, str(axis), rows, made, scale))
    return found


def _scales(parameters: Parameters, op_type: str, before: Sequence[int], after: Sequence[int]) -> list[Fraction] | None:
    """Of each axis; None if they are not constant."""
    resize = op_type == "Resize" and parameters.opset >= 11
    if resize and parameters.has(3):  # sizes, which the shape has too
        return [Fraction(made, rows) for rows, made in zip(before, after, strict=True)]
    by_attribute = op_type == "Upsample" and parameters.opset < 9
    given = parameters.attributes["scales"] if by_attribute else parameters.constant(2 if resize else 1)
    if given is None:
        return None
    axes = parameters.attributes.get("axes") or range(len(before))
    scales = [Fraction(1)] * len(before)
    for axis, scale in zip(axes, given, strict=True):
        scales[axis] = Fraction(float(scale))
    return scales


def _transformation(parameters: Parameters, op_type: str) -> str:
    if op_type == "Upsample" or parameters.opset < 11:
        return "asymmetric"
    return parameters.text("coordinate_transformation_mode", "half_pixel")


def _resized(parameters: Parameters, op_type: str, loop: str, rows: int, made: int, scale: Fraction) -> loops.Axis:
    coordinates = _coordinates(_transformation(parameters, op_type), rows, made, scale)
    if coordinates is None or parameters.attributes.get("antialias", 0):
        return None
    ratio, offset = coordinates
    if ratio == 0:
        return None
    slack = windows.float32_slack(ratio, rows)
    positions = [i * ratio + offset for i in range(made)]
    step = ratio.limit_denominator(max(rows, made))
    mode = parameters.text("mode", "nearest")
    if mode == "nearest":
        rounding = _rounding(parameters, op_type, scale)
        return windows.resized(loop, rows, step, (_nearest(position, slack, rounding) for position in positions))
    reach = {"linear": 0, "bilinear": 0, "cubic": 1}.get(mode)
    if reach is None:
        return None
    return windows.resized(loop, rows, step, (windows.between(position, slack, reach) for position in positions))


def _rounding(parameters: Parameters, op_type: str, scale: Fraction) -> str:
    if op_type == "Upsample" or parameters.opset < 11:
        return "floor" if scale >= 1 else "either"
    return parameters.text("nearest_mode", "round_prefer_floor")


def _nearest(position: Fraction, slack: Fraction, rounding: str) -> tuple[int, int]:
    return windows.between(position, slack) if rounding == "either" else windows.nearest(position, slack, rounding)


def _coordinates(transformation: str, rows: int, made: int, scale: Fraction) -> tuple[Fraction, Fraction] | None:
    """Ratio and offset of where rows of the output lie in the input, as in onnx's text of Resize."""
    if transformation == "align_corners":
        return Fraction(rows - 1, max(1, made - 1)), Fraction(0)
    half = _HALF / scale - _HALF
    offsets = {
        "asymmetric": Fraction(0),
        "half_pixel": half,
        "pytorch_half_pixel": half if made > 1 else Fraction(0),
        "tf_half_pixel_for_nn": _HALF / scale,
        "half_pixel_symmetric": half + Fraction(rows, 2) * (1 - made / (scale * rows)),
    }
    return None if transformation not in offsets else (1 / scale, offsets[transformation])
