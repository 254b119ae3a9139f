"""Progress: plain lines where there is no terminal, one line that is rewritten where there is one."""

from __future__ import annotations

import io
import time

import pytest

from kinbandits.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def now(monkeypatch):
    found = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: found[0])
    return found


def test_plain_lines(now):
    out = io.StringIO()
    with Progress(40, "cells", stream=out) as progress:
        for i in range(40):
            now[0] += 3
            progress.to(i + 1, note=f"n{i}")
    lines = out.getvalue().splitlines()
    assert lines[0] == "cells: 1 of 40 (n0), 3 s elapsed, about 1 min 57 s left"
    assert lines[-1] == "cells: 40 of 40 (n39), 2 min 00 s elapsed"
    assert 9 <= len(lines) <= 12
    assert "\x1b" not in out.getvalue()


def test_what_was_done_before_does_not_make_it_look_quick(now):
    progress = Progress(10, "cells", stream=None, share=0.8)
    now[0] += 60
    assert progress.line(9) == "cells: 9 of 10, 1 min 00 s elapsed, about 1 min 00 s left"


def test_a_terminal_has_one_line():
    out = Terminal()
    with Progress(2, "cells", stream=out) as progress:
        progress.to(1)
        progress.to(2)
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().split("\r\x1b[K")[2].startswith("cells: 2 of 2")


def test_silence(capsys):
    with Progress(1, "x", stream=None) as progress:
        progress.to(1)
    assert capsys.readouterr() == ("", "")
