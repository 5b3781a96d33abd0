"""Settings of torch's CUDA allocator, as PYTORCH_ALLOC_CONF has them: "max_split_size_mb:128,expandable_segments:True".

torch 2.9 has no per_process_memory_fraction, and torch 2.10 no large_segment_size_mb.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ... import _core
from ...errors import SourceError

MIB = 2**20
_POWERS = 16  # from 1 MiB on


def settings_of(text: str, **more: Any) -> _core.CachingSettings:
    """The settings that the text of the environment variable means; options that change no address are left out.

    Raises
    ------
    SourceError
        The text is no such setting. The message says what it has and what was expected.
    """
    options = dict(_options(text))
    chosen: dict[str, Any] = {}
    for key, name, unit in (
        ("max_split_size_mb", "max_split_size", MIB),
        ("max_non_split_rounding_mb", "max_non_split_rounding", MIB),
        ("large_segment_size_mb", "large_segment", MIB),
    ):
        if key in options:
            chosen[name] = _whole(key, options[key], 2 if name == "large_segment" else 20) * unit
    if "large_segment" in chosen:
        chosen.setdefault("max_non_split_rounding", chosen["large_segment"])
    if "garbage_collection_threshold" in options:
        chosen["garbage_collection_threshold"] = _share("garbage_collection_threshold", options)
    if "expandable_segments" in options:
        chosen["expandable_segments"] = _flag("expandable_segments", options["expandable_segments"])
    if "roundup_power2_divisions" in options:
        chosen["roundup_divisions"] = _divisions(options["roundup_power2_divisions"])
    return _core.CachingSettings(**chosen, **more)


def fraction_of(text: str) -> float:
    """The share of the device that the allocator may reserve."""
    options = dict(_options(text))
    return _share("per_process_memory_fraction", options) if "per_process_memory_fraction" in options else 1.0


def recorded_setting(entry: Any) -> str:
    """The text that stands for the `allocator_settings` of a snapshot; "" for those that say nothing else."""
    if not isinstance(entry, Mapping):
        return ""
    text = entry.get("PYTORCH_CUDA_ALLOC_CONF") or entry.get("PYTORCH_ALLOC_CONF") or ""
    if not isinstance(text, str):
        raise SourceError(f"allocator_settings: expected PYTORCH_CUDA_ALLOC_CONF, a text, got {text!r}")
    if text:
        return text
    parts = []
    if isinstance(size := entry.get("max_split_size"), int) and 0 < size < 2**62:
        parts.append(f"max_split_size_mb:{size // MIB}")
    if entry.get("expandable_segments") is True:
        parts.append("expandable_segments:True")
    if isinstance(share := entry.get("garbage_collection_threshold"), float) and share > 0:
        parts.append(f"garbage_collection_threshold:{share}")
    powers = entry.get("roundup_power2_divisions")
    if isinstance(powers, Mapping) and any(powers.values()):
        parts.append(f"roundup_power2_divisions:[{','.join(f'{size}:{count}' for size, count in powers.items())}]")
    return ",".join(parts)


def _options(text: str) -> list[tuple[str, str]]:
    found = re.findall(r"\s*(\w+)\s*:\s*(\[[^\]]*\]|[^,\[\]]*)\s*(?:,|$)", text)
    if "".join(f"{key}:{value}" for key, value in found) != re.sub(r"\s|,(?![^\[]*\])", "", text):
        raise SourceError(f"expected settings of the allocator such as max_split_size_mb:128, got {text!r}")
    return [(key, value.strip()) for key, value in found]


def _whole(key: str, value: str, least: int) -> int:
    if value.isdecimal() and least <= int(value) < 2**40:
        return int(value)
    raise SourceError(f"{key}: expected an integer of at least {least}, got {value!r}")


def _flag(key: str, value: str) -> bool:
    if value in ("True", "False"):
        return value == "True"
    raise SourceError(f"{key}: expected True or False, got {value!r}")


def _share(key: str, options: Mapping[str, str]) -> float:
    try:
        share = float(options[key])
    except ValueError:
        share = -1.0
    if 0 < share <= 1:
        return share
    raise SourceError(f"{key}: expected a number above 0 and up to 1, got {options[key]!r}")


def _divisions(value: str) -> list[int]:
    """Parts of a power of two, for requests from 1 MiB << k on: of a number for all, or a list "[256:1,512:2,>:4]"."""
    if not value.startswith("["):
        return [_power("roundup_power2_divisions", value)] * _POWERS
    found, first, last = [0] * _POWERS, True, 0
    for part in value[1:-1].split(","):
        size, _, count = (piece.strip() for piece in part.partition(":"))
        parts = 0 if count == "0" else _power("roundup_power2_divisions", count)
        if size == ">":
            found[last:] = [parts] * (_POWERS - last)
            continue
        last = min(_power("roundup_power2_divisions", size).bit_length() - 1, _POWERS - 1)
        if first:
            found[:last] = [parts] * last
            first = False
        found[last] = parts
    return found


def _power(key: str, value: str) -> int:
    if value.isdecimal() and 0 < int(value) < 2**40 and int(value).bit_count() == 1:
        return int(value)
    raise SourceError(f"{key}: expected a power of two, got {value!r}")
