"""Sweeps that run in this process."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class Here(Executor):
    """Runs everything at once, in this process; counts, and fails or is interrupted after some."""

    def __init__(self, error: BaseException | None = None, after: int = 0) -> None:
        self.count = 0
        self.error, self.after = error, after

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.count += 1
        if self.error is None or self.count <= self.after:
            future.set_result(function(*pickle.loads(pickle.dumps(arguments)), **options))
        else:
            future.set_exception(self.error)
        return future
