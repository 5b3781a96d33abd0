"""Whether torch.compile gives graphs to the backend at all: Dynamo may give up on a model, without a word."""

from __future__ import annotations

import logging
import sys
from typing import Any

log = logging.getLogger("memplan.torch")
_LINES = 3  # of what Dynamo says: for what it gives up, why, and a way out
_graphs = 0
_said: set[str] = set()


def note() -> None:
    """A graph was given."""
    global _graphs
    _graphs += 1


def watch() -> None:
    """From now on, say for what Dynamo gives up as it ends, as long as no graph was given."""
    dynamo = sys.modules.get("torch._dynamo.callback")
    if dynamo is not None and say_if_none not in dynamo.callback_handler.end_callbacks:
        dynamo.callback_handler.register_end_callback(say_if_none)


def say_if_none(_: Any = None) -> None:
    """Say once for what Dynamo has given up, if no graph was given."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    for reason in () if _graphs else counters.get("unimplemented", ()):
        if reason not in _said:
            _said.add(reason)
            text = ". ".join(line.strip().rstrip(".") for line in reason.splitlines()[:_LINES] if line.strip())
            log.warning("torch.compile has given no graph to the backend so far: %s", text)
