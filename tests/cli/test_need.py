"""Commands that end in a report say before the work what the report needs."""

from __future__ import annotations

import pytest

from kinbandits.cli import main, output


@pytest.mark.parametrize("typed", ["paper --quick", "run any.toml", "demo"])
def test_a_missing_extra_is_named_before_the_work(
    typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stopped:
        main(typed.split())
    assert stopped.value.code == 1
    assert "pip install 'kinbandits[" in capsys.readouterr().err
