"""Progress with an estimate of the time left: a bar on a terminal, a plain line now and then elsewhere.

>>> with Progress(2, "cells", stream=None) as progress:
...     progress.advance()
...     progress.done
1
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TextIO

Told = Callable[[int, int], None]
"""Is called with how much is done, and how much there is."""

_LINES = 10  # plain lines from start to end


def clock(seconds: float) -> str:
    """Seconds for people.

    >>> clock(4.2), clock(75), clock(7260)
    ('4 s', '1 min 15 s', '2 h 01 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class Progress:
    """Counts to ``total``. Use it in a ``with`` statement and call `advance`.

    ``stream`` is where to write (default: standard error; None: nowhere), ``fancy`` a bar instead of lines
    (default: on a terminal), ``done`` what was done before, and ``share`` its part of the work, where things are
    not equally long.
    """

    def __init__(
        self,
        total: float,
        label: str,
        *,
        stream: TextIO | bool | None = True,
        fancy: bool | None = None,
        done: float = 0,
        share: float | None = None,
    ) -> None:
        self.total, self.label, self.done = total, label, done
        self.stream: TextIO | None = sys.stderr if stream is True else (stream or None)
        self.fancy = bool(self.stream is not None and self.stream.isatty()) if fancy is None else fancy
        self._first = done / total if share is None and total else (share or 0.0)
        self._share = self._first
        self._started = time.monotonic()
        self._next_line = 0.0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        if self.stream is not None and self.fancy:
            from rich import progress as rich
            from rich.console import Console

            time_columns = "elapsed", rich.TimeElapsedColumn(), "left", rich.TimeRemainingColumn()
            columns = "{task.description}", rich.BarColumn(), rich.MofNCompleteColumn(), *time_columns
            self._bar = rich.Progress(*columns, console=Console(file=self.stream))
            self._task = self._bar.add_task(self.label, total=self.total, completed=self.done)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, amount: float = 1, note: str = "") -> None:
        """So much more is done; ``note`` is shown beside it."""
        self.to(self.done + amount, note=note)

    def to(self, done: float, share: float | None = None, note: str = "") -> None:
        """So much is done; ``share`` is the part of the work that this is, where things are not equally long."""
        self.done = done
        self._share = done / self.total if share is None and self.total else (share or 0.0)
        if self._bar is not None:
            text = f"{self.label} {note}".rstrip()
            self._bar.update(self._task, completed=self.done, description=text)
        elif self.stream is not None and (self.done >= self._next_line or self.done >= self.total):
            self._next_line = self.done + self.total / _LINES
            print(self.line(note), file=self.stream, flush=True)

    def line(self, note: str = "") -> str:
        """Where it stands, in one plain line."""
        elapsed = time.monotonic() - self._started
        fresh = self._share - self._first
        left = f", about {clock(elapsed / fresh * (1.0 - self._share))} left" if fresh > 0 else ""
        end = left if self.done < self.total else ""
        extra = f" ({note})" if note else ""
        return f"{self.label}: {self.done:g} of {self.total:g}{extra}, {clock(elapsed)} elapsed{end}"


@contextmanager
def telling(progress: bool | Told | None, label: str) -> Iterator[Told]:
    """A function to call with (done, all): the caller's own, one that moves a bar (True), or one that does nothing.

    >>> with telling(None, "rounds") as tell:
    ...     tell(1, 2)
    """
    if not isinstance(progress, bool) and progress is not None:
        yield progress
        return
    bar: Progress | None = None

    def tell(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            bar = Progress(total, label, stream=True if progress else None).__enter__()
        bar.to(done)

    try:
        yield tell if progress else lambda done, total: None
    finally:
        if bar is not None:
            bar.__exit__()
