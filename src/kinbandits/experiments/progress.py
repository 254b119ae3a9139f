"""Progress of a run, seen by counting result files: the same on every backend, and right after a crash too.

On a terminal one line is redrawn; elsewhere (a log, a batch job) plain lines appear now and then. The time left
is estimated from the work done by this run, where the work of a cell is its rounds squared.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TextIO

from kinbandits.progress import clock

__all__ = ["Progress"]

_LINES_EVERY = 15.0  # seconds between plain lines


class Progress:
    """Watches ``done()``, a set of finished cell ids, until it is left.

    Args:
        work: the work of every cell of the experiment, by id, in any unit.
        done: gives the ids finished by now.
        stream: where to write; None is silence.
        terminal: whether to redraw one line (default: whether ``stream`` is a terminal).
        every: seconds between two looks.
    """

    def __init__(
        self,
        work: Mapping[str, float],
        done: Callable[[], set[str]],
        stream: TextIO | None = None,
        *,
        terminal: bool | None = None,
        every: float = 0.5,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._work, self._done, self._stream = work, done, stream
        self._terminal = bool(stream is not None and stream.isatty()) if terminal is None else terminal
        self._every, self._now = every, now
        self._before = done() & set(work)
        self._start = now()
        self._last_line = -_LINES_EVERY
        self._last_count = -1
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def text(self) -> str:
        """The state as one line."""
        done = self._done() & set(self._work)
        elapsed = self._now() - self._start
        total = sum(self._work.values())
        mine = sum(self._work[i] for i in done - self._before)
        left = total - sum(self._work[i] for i in done)
        share = 100.0 * (total - left) / total if total else 100.0
        line = f"{len(done)} of {len(self._work)} cells, {share:.0f} % of the work, {clock(elapsed)}"
        if self._before:
            line += f" ({len(self._before)} from before)"
        if left <= 0:
            return line + ", done"
        return line + (f", about {clock(elapsed * left / mine)} left" if mine > 0 else "")

    def show(self, *, last: bool = False) -> None:
        """Draw the line, or print one if it is time."""
        if self._stream is None:
            return
        if self._terminal:
            self._stream.write("\r\x1b[K" + self.text() + ("\n" if last else ""))
            self._stream.flush()
            return
        count = len(self._done() & set(self._work))
        due = self._now() - self._last_line >= _LINES_EVERY and count != self._last_count
        if last or due:
            self._last_line, self._last_count = self._now(), count
            print(self.text(), file=self._stream, flush=True)

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            self.show()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.show(last=True)
