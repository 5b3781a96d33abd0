"""What the front knows of TFLite: the files that this wing takes, and what writes plans into them."""

from __future__ import annotations

from typing import Any

from ..frontend import Door, Form, Wing
from ..options.records import Reading
from .reading import import_tflite, require_tflite
from .writing import write_tflite


def _read(source: Any, reading: Reading) -> Any:
    return import_tflite(source, frozenset(reading.inplace_ops), reading.overlap, reading.signature).graph


FILE = Form(".tflite", _read, frozenset({"inplace_ops", "overlap", "signature"}), suffixes=(".tflite",))

WING = Wing(
    (FILE,),
    members={"to_tflite": write_tflite},
    doors=(Door("plan('net.tflite')", require_tflite), Door("plan.to_tflite", require_tflite)),
    packages=("tflite",),
)
