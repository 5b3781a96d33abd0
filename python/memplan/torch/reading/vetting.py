"""What a .pt2 file says of a program, looked through before torch reads it.

torch turns some of this text into code: sizes are evaluated, names become lines of a generated function, targets are
looked up in all of torch's modules, guards are compiled. So a description goes through only where each of its texts is
of a form that can do no more than describe: operators of torch's dispatcher, arithmetic on sizes, plain names.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from ...errors import SourceError
from ..private import HigherOrderOperator, OpOverload, dispatch_has_kernel, schema_of


class Untrusted(SourceError):
    """A file holds what torch can only read by running it, or might run."""


_TAME = re.compile(r"[^\x00-\x1f\x7f'\"\\]*")  # in a generated line of code, it stays inside its quotes
_STRINGS = {"as_string", "as_strings"}  # constants: torch writes them as literals
_KEPT_METADATA = ("nn_module_stack",)
_NAMES = {"name", "as_name", "forward_arg_names"}
_SPECS = {"in_spec", "out_spec"}

# What torch writes sizes with: functions of sympy, and its own.
_FUNCTIONS = """
    Abs Add And CeilDiv CeilToInt CleanDiv Eq Equality FloatPow FloatTrueDiv Float FloorDiv FloorToInt Ge Gt
    GreaterThan Identity IntTrueDiv Integer IsNonOverlappingAndDenseIndicator LShift Le LessThan Lt Max Min Mod
    ModularIndexing Mul Ne Not Or Piecewise Pow PowByNatural PythonMod RShift Rational RoundDecimal RoundToInt
    StrictGreaterThan StrictLessThan Symbol ToFloat TruncToFloat TruncToInt Unequality Where ceiling floor sqrt
"""
_CALLED = frozenset(_FUNCTIONS.split())
_ARITHMETIC = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Name, ast.Load, ast.Call, ast.keyword),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.Constant),
)

# Operators on sizes, which are no operators of the dispatcher.
_OPERATOR = "add and_ eq floordiv ge gt le lshift lt mod mul ne neg or_ pos pow rshift sub truediv"
_SYM = "float int ite max min not sqrt sum"
_ON_SIZES = {
    "math.trunc",
    *(f"_operator.{name}" for name in _OPERATOR.split()),
    *(f"torch.sym_{name}" for name in _SYM.split()),
}
_FACTORIES = frozenset(["bool", "dict", "float", "int", "list", "set", "str", "tuple"])  # of a defaultdict


def vetted(value: Any, where: str = "model") -> Any:
    """The description without what planning does not need; SourceError names the entry that might run code."""
    if isinstance(value, dict):
        return {_tame(key, where): _entry(key, entry, f"{where}.{key}") for key, entry in value.items()}
    if isinstance(value, list):
        return [vetted(entry, f"{where}[{i}]") for i, entry in enumerate(value)]
    return _tame(value, where) if isinstance(value, str) else value


def _entry(key: str, value: Any, where: str) -> Any:
    if key == "metadata":
        return _metadata(value)
    if key == "guards_code":
        return []
    if key in _STRINGS:
        return value
    if key in _NAMES:
        for name in value if isinstance(value, list) else [value]:
            _check(name is None or name == "" or _is_name(name), where, "a name", name)
    elif key in _SPECS:
        _check_spec(value, where)
        return value
    elif key in ("target", "as_operator"):
        _check(isinstance(value, str) and _is_operator(value), where, "an operator of torch", value)
    elif key == "expr_str":
        _check(isinstance(value, str) and _is_arithmetic(value), where, "arithmetic on sizes", value)
        return value
    return vetted(value, where)


def _metadata(value: Any) -> Any:
    if not isinstance(value, dict):
        return {}
    return {key: value[key] for key in _KEPT_METADATA if isinstance(value.get(key), str)}


def _tame(text: str, where: str) -> str:
    _check(_TAME.fullmatch(text) is not None, where, "text without quotes, backslashes and control characters", text)
    return text


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and text.isidentifier()


def _is_operator(target: str) -> bool:
    """Whether it is looked up to an operator of the dispatcher that opens no file, or to one that holds graphs."""
    import torch

    if target in _ON_SIZES:
        return True
    parts = target.split(".")
    if parts[:2] != ["torch", "ops"] or not all(map(str.isidentifier, parts)):
        return False
    if len(parts) == 4 and parts[2] == "higher_order":
        return isinstance(getattr(torch.ops.higher_order, parts[3], None), HigherOrderOperator)
    if len(parts) != 5:
        return False
    packet = getattr(getattr(torch.ops, parts[2]), parts[3], None)
    operator = getattr(packet, parts[4], None)
    if not isinstance(operator, OpOverload):
        # An operator that is not loaded: torch says how to get it.
        return packet is None
    files = any(argument.name == "filename" for argument in schema_of(operator).arguments)
    return not files and parts[2] != "debugprims" and dispatch_has_kernel(_qualified(operator))


def _qualified(operator: Any) -> str:
    schema = schema_of(operator)
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def _is_arithmetic(text: str) -> bool:
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_harmless(node) for node in ast.walk(tree))


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _CALLED
    if isinstance(node, ast.Constant):
        return _is_name(node.value) if isinstance(node.value, str) else isinstance(node.value, (bool, int, float))
    return isinstance(node, _ARITHMETIC)


def _check_spec(text: Any, where: str) -> None:
    """A tree of containers: the keys of dicts, and what is made to read them."""
    spec = _parsed(text)
    for name in _keywords(spec):
        _check(_is_name(name), where, "a tree in which the names of arguments are names", name)
    _check_context(spec, where)


def _keywords(spec: Any) -> list[Any]:
    """The names of keyword arguments, which become those of a function."""
    try:
        names = _parsed(spec[1]["children_spec"][1]["context"])
    except (TypeError, LookupError):
        return []
    return names if isinstance(names, list) else []


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


def _check_context(value: Any, where: str) -> None:
    if isinstance(value, dict):
        _check("__enum__" not in value, where, "keys that are no members of an enum", value)
        if "default_factory_module" in value:
            module, name = value["default_factory_module"], value.get("default_factory_name")
            plain = module == "builtins" and name in _FACTORIES
            _check(plain, where, "a default factory of Python's own", f"{module}.{name}")
        for entry in value.values():
            _check_context(entry, where)
    elif isinstance(value, list):
        for entry in value:
            _check_context(entry, where)
    elif isinstance(value, str):
        _check_context(_parsed(value), where)


def _check(holds: bool, where: str, expected: str, got: Any) -> None:
    if not holds:
        shown = repr(got)
        shown = shown if len(shown) <= 120 else f"{shown[:120]}…"
        raise Untrusted(f"{where} must be {expected}, got {shown}")
