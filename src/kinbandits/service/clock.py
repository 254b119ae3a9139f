"""Time that passes, whatever the machine's clock does."""

from __future__ import annotations

import time
from collections.abc import Callable

_MOST_AHEAD = 86_400.0  # a log that is further ahead was written with a wrong clock


class SteadyClock:
    """Seconds since 1970 that never go back and never stand still.

    It follows the machine's clock forwards. When that is set back, this one goes on at its own pace: decisions
    still become overdue, and times in the log stay in order.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._offset = wall() - steady()

    def __call__(self) -> float:
        """Now."""
        self._offset = max(self._offset, self._wall() - self._steady())
        return self._steady() + self._offset

    def begin(self, last: float) -> None:
        """Start no earlier than the last event of the log."""
        if 0.0 < last - self() <= _MOST_AHEAD:
            self._offset = last - self._steady()
