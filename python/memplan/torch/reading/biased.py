"""The bias of a linear layer: eager torch adds it in place to a product that only the layer knows.

Where stand-ins run, torch adds it out of place. It is the layer's own sum if the product and the sum come from one call
of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

_aten: Any = torch.ops.aten
_TORCH = str(Path(torch.__file__).parent)
_BETWEEN = tuple(f"{_TORCH}/{part}" for part in ("_compile.py", "_dynamo/", "utils/_python_dispatch.py"))
_PRODUCTS = {_aten.mm.default, _aten.bmm.default, _aten.mv.default}
_VIEWS = {_aten.view.default, _aten._unsafe_view.default}


def caller(frame: FrameType) -> FrameType:
    """Whose call of torch runs in a frame of a mode: the first that is not torch's own way to it."""
    back = frame.f_back
    while back is not None and back.f_code.co_filename.startswith(_BETWEEN):
        back = back.f_back
    return back or frame


class Biased:
    """Watches operators go by.

    Attributes
    ----------
    biased : int or None
        The id of the storage that the newest operator writes over in eager torch.
    """

    def __init__(self) -> None:
        self.biased: int | None = None
        self._product: tuple[int, tuple[int, int]] | None = None  # the id of its storage, and from where it came
        self._call = (0, 0)

    def called(self, func: Any, args: Sequence[Any], frame: FrameType) -> None:
        """An operator is about to run, called from a frame of Python."""
        self._call = (id(frame), frame.f_lasti)
        self.biased = None
        if func is _aten.add.Tensor and self._product is not None and all(isinstance(t, Tensor) for t in args[:2]):
            key = id(args[0].untyped_storage())
            if self._product == (key, self._call) and args[1].dim() == 1 and args[0].dim() > 1:
                self.biased = key
        if func not in _VIEWS:
            self._product = None

    def made(self, func: Any, result: Any) -> None:
        """It has run."""
        if func in _PRODUCTS:
            self._product = id(result.untyped_storage()), self._call
