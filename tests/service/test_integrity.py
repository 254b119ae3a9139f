"""Verify, backup and restore: what is whole is said to be whole, and nothing else is."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import Run, fill
from harness import fork_server

from kinbandits.errors import InvalidInputError
from kinbandits.service.events import Draft, Head
from kinbandits.service.integrity import verify
from kinbandits.service.store import open_store


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("UPDATE events SET body = replace(body, '0.', '1.') WHERE seq = 1", "event 1 was changed"),
        ("DELETE FROM events WHERE seq = 20", "event 20 is missing"),
        ("UPDATE decisions SET state = 'open' WHERE id = '0-000000000001'", "entered as open"),
        ("UPDATE decisions SET reward = 99 WHERE id = '0-000000000001'", "reward is entered as 99"),
        ("UPDATE decisions SET at = 0 WHERE id = '0-000000000001'", "at is entered as 0.0"),
        ("INSERT INTO tokens VALUES ('mine', 'h', 'admin', 0, NULL)", "token mine is not what the events say"),
        ("DELETE FROM decisions WHERE id = '0-000000000008'", "not entered"),
    ],
)
def test_verify_notices(tmp_path: Path, config: Path, run: Run, harm: str, said: str) -> None:
    url = tmp_path / "log.sqlite3"
    fill(str(url), config, rounds=20)
    with closing(sqlite3.connect(url)) as raw:
        assert raw.execute(harm).rowcount == 1
        raw.commit()
    assert said in run("log", "verify", url, code=1)
    assert "not in order" in run("restore", url, tmp_path / "never.sqlite3", code=1)
    assert not (tmp_path / "never.sqlite3").exists()


def test_verify_notices_a_lost_end(tmp_path: Path, config: Path, run: Run) -> None:
    url = tmp_path / "log.sqlite3"
    fill(str(url), config, rounds=20)
    printed = run("log", "verify", url).split()[-1]
    head = Head.parse(printed)
    with closing(sqlite3.connect(url)) as raw:
        raw.execute("DELETE FROM events WHERE seq > 30")
        raw.execute("DELETE FROM decisions WHERE seq > 30")
        raw.commit()
    said = run("log", "verify", url, code=1)  # the service has kept the head beside the log
    assert f"ends at event 30, but event {head.seq} had been written" in said
    url.with_name("log.sqlite3.head").unlink()
    assert f"event {head.seq} had been written" in run("log", "verify", url, "--head", printed, code=1)
    assert "is not the one" in run("log", "verify", url, "--head", f"30:{head.digest}", code=1)
    assert "a head is a number" in run("log", "verify", url, "--head", "30", code=1)


def test_a_head_is_kept_while_the_service_runs(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "log.sqlite3"))
    assert store.head() == Head(0, "")
    assert store.kept_head() is None
    store.keep_head(Head(3, "ab" * 16))
    assert store.kept_head() == Head(3, "ab" * 16)
    (tmp_path / "log.sqlite3.head").write_text("rubbish")
    assert store.kept_head() is None
    store.close()


# -- backup and restore -----------------------------------------------------------------------------


def crashed(folder: Path, config: Path) -> Path:
    """A log as SIGKILL leaves it: all of its rows are still in the WAL."""
    folder.mkdir()
    store = open_store(str(folder / "live.sqlite3"))
    with store.transaction() as tx:
        tx.append([Draft("configured", 1.0, {"policy": {}})])
    for name in ("live.sqlite3", "live.sqlite3-wal"):
        shutil.copy(folder / name, folder / name.replace("live", "crashed"))
    store.close()
    return folder / "crashed.sqlite3"


def test_a_crashed_log_is_restored_with_all_its_events(tmp_path: Path, config: Path, run: Run) -> None:
    source, target = crashed(tmp_path / "a", config), tmp_path / "b" / "log.sqlite3"
    assert "1 events" in run("restore", source, target)
    store = open_store(str(target))
    assert store.last_seq() == 1
    store.close()


@pytest.mark.parametrize("left", ["log.sqlite3", "log.sqlite3-wal", "log.sqlite3-shm"])
def test_what_another_log_left_behind_is_not_mixed_in(tmp_path: Path, config: Path, run: Run, left: str) -> None:
    fill(str(tmp_path / "good.sqlite3"), config, rounds=5)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / left).write_bytes(b"left behind")
    said = run("restore", tmp_path / "good.sqlite3", tmp_path / "new" / "log.sqlite3", code=1)
    assert f"{left} is there already" in said.replace("\n", "")
    assert "is there already" in run("backup", tmp_path / "good.sqlite3", tmp_path / "new" / "log.sqlite3", code=1)
    assert [p.name for p in (tmp_path / "new").iterdir()] == [left]


def test_backup_and_restore_leave_single_files(tmp_path: Path, config: Path, run: Run) -> None:
    url = tmp_path / "log.sqlite3"
    fill(str(url), config, rounds=20)
    held = open_store(str(url))
    assert "in order" in run("backup", url, tmp_path / "backups.sqlite3")
    held.close()
    assert "in order" in run("restore", tmp_path / "backups.sqlite3", tmp_path / "new" / "log.sqlite3")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["log.sqlite3"]
    assert sorted(p.name for p in tmp_path.glob("backups*")) == ["backups.sqlite3"]
    again, first = open_store(str(tmp_path / "new" / "log.sqlite3")), open_store(str(url), readonly=True)
    assert again.read(limit=10_000) == first.read(limit=10_000)
    again.close()
    first.close()


def _verify_as_nobody(path: str, answers: Any) -> None:
    os.setgid(65534)
    os.setuid(65534)
    try:
        store = open_store(path, readonly=True)
        answers.put((os.access(Path(path).parent, os.W_OK), verify(store), store.last_seq()))
        store.close()
    except BaseException as error:
        answers.put(repr(error))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can stop being root")
def test_reading_needs_no_right_to_write(tmp_path: Path, config: Path) -> None:
    """Verify and backup of a log in a folder that belongs to somebody else, clean or as a crash left it."""
    fill(str(tmp_path / "log.sqlite3"), config, rounds=5)
    other = crashed(tmp_path / "a", config)
    for path in tmp_path.rglob("*.sqlite3*"):
        path.chmod(0o644)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.stat().st_mode & 0o005 != 0o005:  # others may not look in yet
            folder.chmod(0o755)
    context = fork_server()
    for path, events in ((tmp_path / "log.sqlite3", 10), (other, 1)):
        answers = context.SimpleQueue()
        process = context.Process(target=_verify_as_nobody, args=(str(path), answers))
        process.start()
        assert answers.get() == (False, [], events)
        process.join()


def test_bad_heads() -> None:
    with pytest.raises(InvalidInputError, match="32 hexadecimal digits"):
        Head.parse("12:xyz")
