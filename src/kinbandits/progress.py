"""Lengths of time, for people."""

from __future__ import annotations

__all__ = ["clock"]


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
