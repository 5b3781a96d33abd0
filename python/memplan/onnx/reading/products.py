"""Loops of convolutions, pooling and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...importers import claims, loops, windows
from .node import Node, Rule


def _geometry(node: Node, kernel: claims.Shape) -> list[tuple[int, int, int]]:
    """Kernel, stride and dilation along each spatial axis."""
    ones = [1] * len(kernel)
    strides, dilations = node.attribute("strides") or ones, node.attribute("dilations") or ones
    return list(zip(kernel, strides, dilations, strict=True))


def pads_before(node: Node, kernel: claims.Shape) -> list[int]:
    """Rows of padding before the first, along each spatial axis."""
    padding = node.parameters.text("auto_pad", "NOTSET")
    if padding == "NOTSET":
        return list((node.attribute("pads") or [0] * 2 * len(kernel))[: len(kernel)])
    if not padding.startswith("SAME"):
        return [0] * len(kernel)
    spatial = zip(node.shape(0)[2:], _geometry(node, kernel), strict=True)
    totals = [windows.same_padding(rows, *geometry) for rows, geometry in spatial]
    return [total // 2 if padding == "SAME_UPPER" else total - total // 2 for total in totals]


def _windows(node: Node, kernel: claims.Shape) -> list[loops.Axis]:
    pairs = zip(_geometry(node, kernel), pads_before(node, kernel), strict=True)
    return [windows.window(str(axis), *geometry, before) for axis, (geometry, before) in enumerate(pairs)]


def convolution(weight: int = 1, bias: int = 2, like_weight: Sequence[int] = (), adds: bool = True) -> Rule:
    """Of a convolution whose weight and bias are at these positions; `like_weight` have a row per output channel.

    `adds`: parts of the input channels may be added up, the bias once.
    """

    def rule(node: Node) -> claims.Claim:
        x, w, groups = node.shape(0), node.shape(weight), node.attribute("group", 1)
        kernel = w[2:]
        spatial: list[loops.Axis] = [str(axis) for axis in range(len(kernel))]
        whole: list[loops.Axis] = [None] * len(kernel)
        made, given, rows = ("m", "c", "m") if groups == 1 else windows.grouped("g", groups, w[0], x[1], w[0])
        reads: list[claims.Axes | None] = [None] * len(node.inputs)
        reads[0] = ["n", given, *_windows(node, kernel)]
        reads[weight] = [rows, "c" if groups == 1 else None, *whole]
        for position in (bias, *like_weight):
            if node.has(position):
                reads[position] = [rows if size > 1 else None for size in node.shape(position)]
        if node.op_type == "FusedConv" and node.has(3):  # added to the output
            reads[3] = ["n", made, *spatial]
        return claims.Claim(reads, [["n", made, *spatial]], "c" if groups == 1 and adds else "")

    return rule


def transposed_convolution(node: Node) -> claims.Claim:
    x, w, groups = node.shape(0), node.shape(1), node.attribute("group", 1)
    kernel = w[2:]
    made, given = ("m", "c") if groups == 1 else windows.grouped("g", groups, node.made[1], x[1])
    reads, writes = list[loops.Axis](), list[loops.Axis]()
    for axis, (size, stride, dilation) in enumerate(_geometry(node, kernel)):
        read, write = windows.transposed(
            str(axis), size, stride, dilation, cut_before(node, axis, size, stride, dilation)
        )
        reads.append(read)
        writes.append(write)
    whole: list[loops.Axis] = [None] * len(kernel)
    weight = [given, "m" if groups == 1 else None, *whole]
    return claims.Claim([["n", given, *reads], weight, [made]], [["n", made, *writes]], "c" if groups == 1 else "")


def cut_before(node: Node, axis: int, kernel: int, stride: int, dilation: int) -> int:
    """How many rows before the first are cut off."""
    padding, count = node.parameters.text("auto_pad", "NOTSET"), len(node.made) - 2
    shape = node.attribute("output_shape")
    if padding == "VALID" and not shape:
        return 0
    if padding == "NOTSET" and not shape:
        return int((node.attribute("pads") or [0] * count)[axis])
    more = (node.attribute("output_padding") or [0] * count)[axis]
    full = stride * (node.shape(0)[2 + axis] - 1) + more + dilation * (kernel - 1) + 1
    total = max(0, full - node.made[2 + axis])
    return int(total // 2 if padding == "SAME_UPPER" else total - total // 2)


def pooling(node: Node) -> claims.Claim | None:
    """A second output has places in the whole of the input."""
    if len([shape for shape in node.outputs if shape is not None]) > 1:
        return None
    kernel = node.attribute("kernel_shape")
    spatial = [str(axis) for axis in range(len(kernel))]
    return claims.Claim([["n", "c", *_windows(node, kernel)]], [["n", "c", *spatial]])


def product(left: int = 0, right: int = 1, adds: bool = True) -> Rule:
    """Of a product of matrices at these positions, of any rank; inputs of one row or column more are its scales."""

    def rule(node: Node) -> claims.Claim | None:
        if node.attribute("transBatchA", 0) or node.attribute("transBatchB", 0):
            return None
        a, b, made = node.shape(left), node.shape(right), node.made
        batch = [str(axis) for axis in range(len(made) - (len(a) > 1) - (len(b) > 1))]
        rows, columns = (["m", "k"] if len(a) > 1 else ["k"]), (["k", "n"] if len(b) > 1 else ["k"])
        if node.attribute("transA", 0):
            rows.reverse()
        if node.attribute("transB", 0):
            columns.reverse()
        reads: list[claims.Axes | None] = [None] * len(node.inputs)
        reads[left] = [*loops.broadcast(a[:-2], made[: len(batch)], batch), *rows]
        reads[right] = [*loops.broadcast(b[:-2], made[: len(batch)], batch), *columns]
        for position, shape in enumerate(node.inputs):
            if position not in (left, right) and shape is not None and math.prod(shape) > 1:
                return None  # scales of rows or columns
        writes = [*batch, *(["m"] if len(a) > 1 else []), *(["n"] if len(b) > 1 else [])]
        return claims.Claim(reads, [writes], "k" if adds else "")

    return rule


def gemm(adds: bool = True) -> Rule:
    """Parts of the inner axis may be added up, the third input once."""

    def rule(node: Node) -> claims.Claim:
        a = "km" if node.attribute("transA", 0) else "mk"
        b = "nk" if node.attribute("transB", 0) else "kn"
        reads: list[claims.Axes | None] = [claims.along(a, node.shape(0)), claims.along(b, node.shape(1))]
        if node.has(2):
            reads.append(loops.broadcast(node.shape(2), node.made, "mn"))
        return claims.Claim(reads, ["mn"], "k" if adds else "")

    return rule


def einsum(node: Node) -> claims.Claim | None:
    equation = node.attribute("equation").decode().replace(" ", "")
    if "." in equation or "->" not in equation:
        return None
    left, made = equation.split("->")
    terms = left.split(",")
    sums = sorted({loop for loop in left if loop.isalpha()} - set(made))
    if any(len(set(term)) != len(term) for term in terms) or not node.is_float:
        sums = []
    reads = [claims.along(term, shape) for term, shape in zip(terms, node.inputs, strict=True) if shape is not None]
    return claims.Claim(reads, [claims.along(made, node.made)], sums)


def reduction(adds: bool) -> Rule:
    """Over the axes of an attribute, or of the second input."""

    def rule(node: Node) -> claims.Claim | None:
        rank = len(node.shape(0))
        axes = node.attribute("axes")
        if node.has(1):
            axes = node.parameters.integers(1)
            if axes is None:
                return None
        if not axes and node.attribute("noop_with_empty_axes", 0):
            axes = []
        elif not axes:
            axes = range(rank)
        if node.op_type.startswith("Arg"):
            axes = [node.attribute("axis", 0)]
        gone = {axis % max(1, rank) for axis in axes}
        read = [str(axis) for axis in range(rank)]
        keeps = node.attribute("keepdims", 1)
        writes = [None if axis in gone else str(axis) for axis in range(rank) if keeps or axis not in gone]
        sums = [str(axis) for axis in sorted(gone)] if adds and node.is_float else []
        return claims.Claim([read], [writes], sums)

    return rule


def attention(node: Node) -> claims.Claim:
    """Batch, heads that have an axis of their own and are as many in keys, rows of the query; a mask is read whole."""
    heads = "h" if len(node.shape(0)) == 4 and node.shape(0)[1] == node.shape(1)[1] else "_"
    query, key = ("bs_", "b__") if len(node.shape(0)) == 3 else (f"b{heads}s_", f"b{heads}__")
    reads = [claims.along(term, node.shape(k)) for k, term in enumerate((query, key, key))]
    return claims.Claim(reads, [claims.along(query, node.made)])
