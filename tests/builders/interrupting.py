"""Searches that do not end, and signals that end them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

FOREVER = "hill_climb:iterations=1000000000,placements=1000000000000"
SOON = 0.1  # seconds, after which a search has a plan


@contextlib.contextmanager
def signals(*after: float, number: int = signal.SIGINT) -> Iterator[list[float]]:
    """Sends a signal to this process after each of so many seconds; gives when that was."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), number)

    timers = [threading.Timer(seconds, send) for seconds in after]
    for timer in timers:
        timer.start()
    try:
        yield sent
    finally:
        for timer in timers:
            timer.cancel()
            timer.join()
