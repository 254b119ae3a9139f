"""Progress: plain lines where there is no terminal, a bar where there is one."""

from __future__ import annotations

import io
import time

import pytest

from kinbandits.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_lines(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    out = io.StringIO()
    with Progress(40, "cells", stream=out) as progress:
        for i in range(40):
            now[0] += 3
            progress.advance(note=f"n{i}")
    lines = out.getvalue().splitlines()
    assert lines[0] == "cells: 1 of 40 (n0), 3 s elapsed, about 1 min 57 s left"
    assert lines[-1] == "cells: 40 of 40 (n39), 2 min 00 s elapsed"
    assert 9 <= len(lines) <= 12
    assert "\x1b" not in out.getvalue()


def test_what_was_done_before_does_not_make_it_look_quick(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = Progress(10, "cells", stream=None, done=8)
    with progress:
        now[0] += 60
        progress.advance()
    assert progress.line() == "cells: 9 of 10, 1 min 00 s elapsed, about 1 min 00 s left"


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    with Progress(2, "cells", stream=out) as progress:
        progress.advance()
        progress.advance()
    assert "2/2" in out.getvalue()
    assert "\x1b" in out.getvalue()


def test_silence(capsys):
    with Progress(1, "x", stream=None) as progress:
        progress.advance()
    assert capsys.readouterr() == ("", "")


def test_an_error_passes_through():
    with pytest.raises(KeyError), Progress(1, "x", stream=io.StringIO()):
        raise KeyError
