"""Tables: for notebooks, what ``_repr_html_`` gives; and as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["html_table", "text_table"]

_LEFT = "text-align:left"
_RIGHT = "text-align:right;font-variant-numeric:tabular-nums"


def html_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = (), most: int = 30
) -> str:
    """A title, a table whose first column is set flush left, and notes under it; all text is escaped.

    >>> html_table("T", ["a"], [["<b>"]]).count("&lt;b&gt;")
    1
    """
    styles = [_LEFT] + [_RIGHT] * len(columns)
    lines = ["".join(f"<th style='{s}'>{escape(c)}</th>" for c, s in zip(columns, styles, strict=False))]
    for row in rows[:most]:
        lines.append("".join(f"<td style='{s}'>{escape(c)}</td>" for c, s in zip(row, styles, strict=False)))
    if len(rows) > most:
        notes = [f"and {len(rows) - most} more", *notes]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    under = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<div><b>{escape(title)}</b><table>{body}</table>{under}</div>"


def text_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A title and aligned columns; those numbered in ``right`` are set flush right.

    >>> print(text_table("T", ["a", "b"], [["x", "10"]], right=[1]))
    T
    a   b
    x  10
    """
    lines = [columns, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = ([c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
               for line in lines)  # fmt: skip
    return "\n".join([title, *("  ".join(cells).rstrip() for cells in aligned)])
