"""Progress with an estimate of the time left: a line that is rewritten on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import time
from typing import Self, TextIO

_LINES = 10  # from start to end, where there is no terminal


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
    """Counts to ``total`` on ``stream`` (None: silence); ``share`` is the part of the work that was done before.

    >>> import sys
    >>> with Progress(2, "runs", stream=sys.stdout) as progress:
    ...     progress.to(2)
    runs: 2 of 2, 0 s elapsed
    """

    def __init__(self, total: float, label: str, *, stream: TextIO | None, share: float = 0.0) -> None:
        self.total, self.label, self.stream, self._first = total, label, stream, share
        self._started = time.monotonic()
        self._next_line = 0.0
        self._terminal = stream is not None and stream.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._terminal:
            print(file=self.stream)

    def to(self, done: float, share: float | None = None, note: str = "") -> None:
        """So much is done; ``share`` is the part of the work that this is, where things are not equally long."""
        if self._terminal:
            print(f"\r\x1b[K{self.line(done, share, note)}", end="", file=self.stream, flush=True)
        elif self.stream is not None and (done >= self._next_line or done >= self.total):
            self._next_line = done + self.total / _LINES
            print(self.line(done, share, note), file=self.stream, flush=True)

    def line(self, done: float, share: float | None = None, note: str = "") -> str:
        """Where it stands."""
        elapsed = time.monotonic() - self._started
        share = done / self.total if share is None and self.total else (share or 0.0)
        fresh = share - self._first
        left = fresh > 0 and done < self.total
        ahead = f", about {clock(elapsed / fresh * (1.0 - share))} left" if left else ""
        extra = f" ({note})" if note else ""
        return f"{self.label}: {done:g} of {self.total:g}{extra}, {clock(elapsed)} elapsed{ahead}"
