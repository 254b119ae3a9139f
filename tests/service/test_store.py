"""The contract of the log, for each of its homes."""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
import types
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kinbandits.errors import FormatError
from kinbandits.service import tables
from kinbandits.service.events import Draft, Event, decision_id, digest, to_text
from kinbandits.service.store import Store, StoreLockedError, StoreUnavailableError, Token, open_store


def decided(number: int, *, at: float = 100.0, key: str | None = None, slot: int = 0) -> Draft:
    body = {"context": [0.1, 1 / 3], "arm": "ä", "propensity": 0.5}
    return Draft("decision", at, body, decision_id(slot, number), key, None if key is None else "abc")


def rewarded(number: int, value: float) -> Draft:
    return Draft("reward", 101.0, {"reward": value, "arm": "ä", "context": [0.1]}, decision_id(0, number))


def assert_chained(events: list[Event]) -> None:
    previous = ""
    for i, e in enumerate(events):
        assert e.seq == i + 1
        assert e.digest == digest(previous, e.seq, e.kind, e.decision, e.at, to_text(e.body))
        previous = e.digest


def append(store: Store, *drafts: Draft) -> list[int]:
    with store.transaction() as tx:
        return [e.seq for e in tx.append(drafts)]


def test_what_is_appended_is_read_back_in_order(store: Store) -> None:
    assert store.last_seq() == 0
    assert append(store, decided(1), decided(2)) == [1, 2]
    assert append(store, rewarded(1, 0.1)) == [3]
    events = store.read()
    assert [e.seq for e in events] == [1, 2, 3]
    assert [e.kind for e in events] == ["decision", "decision", "reward"]
    assert events[0].body == {"context": [0.1, 1 / 3], "arm": "ä", "propensity": 0.5}
    assert events[0].at == 100.0
    assert store.read(after=2) == events[2:]
    assert store.read(limit=1) == events[:1]
    assert list(store.read_all(batch=1)) == events
    assert store.event(2) == events[1]
    assert store.event(9) is None
    assert_chained(events)


def test_the_table_of_decisions_follows(store: Store) -> None:
    append(store, decided(1), decided(2, key="k"), decided(3))
    append(store, rewarded(1, 0.25), Draft("void", 101.0, {"reason": "not shown"}, decision_id(0, 3)))
    states = [(r.state, r.reward) for r in store.records()]
    assert states == [("rewarded", 0.25), ("open", None), ("void", None)]
    append(store, Draft("default", 200.0, {"reward": 0.0, "arm": "ä", "context": [0.1]}, decision_id(0, 2)))
    record = store.record(decision_id(0, 2))
    assert record is not None
    assert (record.state, record.reward, record.key, record.request) == ("defaulted", None, "k", "abc")
    append(store, Draft("late", 300.0, {"reward": 0.5}, decision_id(0, 2)))
    with store.transaction() as tx:
        assert tx.find_keys(["k", "other"])["k"].state == "late"
        assert tx.find([decision_id(0, 2), "none"])[decision_id(0, 2)].reward == 0.5
        assert tx.find([]) == {}
    assert store.record("none") is None
    assert store.last_number() == 3
    assert [r.id for r in store.find_records(limit=2)] == [decision_id(0, 3), decision_id(0, 2)]


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    append(store, decided(1))
    with pytest.raises(RuntimeError, match="stop"), store.transaction() as tx:  # noqa: PT012
        tx.append([decided(2)])
        tx.count("duplicate")
        raise RuntimeError("stop")
    with pytest.raises(Exception, match=r"(?i)unique"), store.transaction() as tx:  # the same decision twice
        tx.append([decided(2), decided(1)])
    assert store.last_seq() == 1
    assert store.counters() == {}
    assert append(store, decided(2)) == [2]
    assert_chained(store.read())


def test_a_key_is_used_once(store: Store) -> None:
    append(store, decided(1, key="k"))
    with pytest.raises(Exception, match=r"(?i)unique"):
        append(store, decided(2, key="k"))


def test_overdue_decisions(store: Store) -> None:
    append(store, decided(1, at=10.0), decided(2, at=5.0), decided(3, at=20.0), decided(4, at=1.0))
    append(store, rewarded(4, 1.0))
    with store.transaction() as tx:
        assert [r.id for r in tx.overdue(15.0)] == [decision_id(0, 2), decision_id(0, 1)]
        assert len(tx.overdue(15.0, limit=1)) == 1


def test_counters_tokens_meta_and_snapshots(store: Store) -> None:
    with store.transaction() as tx:
        tx.count("duplicate")
        tx.count("duplicate", 3)
        tx.add_token(Token("t1", "hash", ("read", "admin"), 5.0, None))
        tx.set_meta("secret", "a")
        tx.set_meta("secret", "b")
    assert store.counters() == {"duplicate": 4}
    assert store.meta("secret") == "b"
    assert store.meta("other") is None
    assert store.tokens() == [Token("t1", "hash", ("read", "admin"), 5.0, None)]
    with store.transaction() as tx:
        assert tx.revoke_token("t1", 6.0)
        assert not tx.revoke_token("t1", 7.0)
        assert not tx.revoke_token("none", 7.0)
    assert store.tokens()[0].revoked == 6.0
    for seq in (3, 9, 5):
        store.save_snapshot(seq, [bytes([seq]) * 3, bytes([seq])], keep=2)
    assert list(store.snapshots()) == [(9, b"\x09" * 4), (5, b"\x05" * 4)]
    store.drop_snapshots()
    assert list(store.snapshots()) == []


def test_it_is_all_there_after_opening_again(open_log: Callable[..., Store]) -> None:
    first = open_log()
    append(first, decided(1), decided(2))
    before = first.read()
    first.close()
    second = open_log()
    assert second.read() == before
    assert second.slot == 0
    assert append(second, decided(3)) == [3]
    assert second.check() == []


def test_readers_do_not_lock(open_log: Callable[..., Store]) -> None:
    writer = open_log()
    append(writer, decided(1))
    reader = open_log(readonly=True)
    assert reader.last_seq() == 1
    append(writer, decided(2))
    assert reader.last_seq() == 2
    assert not reader.lead()
    assert writer.lead()


def test_threads_append_without_gaps(store: Store) -> None:
    def work(worker: int) -> None:
        for i in range(20):
            append(store, decided(1 + worker * 100 + i))

    threads = [threading.Thread(target=work, args=(w,)) for w in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert_chained(store.read())
    assert store.last_seq() == 80


def test_closed_is_unavailable(store: Store) -> None:
    store.close()
    with pytest.raises(StoreUnavailableError):
        store.read()
    with pytest.raises(StoreUnavailableError):
        append(store, decided(1))


# -- SQLite alone -----------------------------------------------------------------------------------


def test_one_process_holds_an_sqlite_log(tmp_path: Path) -> None:
    path = str(tmp_path / "log.sqlite3")
    first = open_store(path)
    with pytest.raises(StoreLockedError, match="in use by another process"):
        open_store(path)
    first.close()
    open_store(path).close()


def test_a_machine_without_fcntl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[tuple[int, int]] = []
    windows = types.SimpleNamespace(LK_NBLCK=2, locking=lambda _, mode, n: held.append((mode, n)))
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    open_store(str(tmp_path / "log.sqlite3")).close()
    assert held == [(2, 1)]


def test_an_sqlite_log_flushes_every_commit(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "log.sqlite3"))
    assert store._write("PRAGMA journal_mode") == [("wal",)]
    assert store._write("PRAGMA synchronous") == [(2,)]  # FULL
    store.close()


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite3"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(FormatError, match="not a kinbandits log"):
        open_store(str(path))
    assert path.read_bytes().startswith(b"not a database")
    with pytest.raises(ValueError, match="there is no log"):
        open_store(str(tmp_path / "none"), create=False)


# -- PostgreSQL alone -------------------------------------------------------------------------------


def test_several_processes_share_a_postgres_log(postgres_url: str) -> None:
    one, two = open_store(postgres_url), open_store(postgres_url)
    try:
        assert (one.slot, two.slot) == (0, 1)
        assert one.lead()
        assert not two.lead()
        append(one, decided(1))
        append(two, decided(1, slot=1))
        append(one, decided(2))
        assert [e.seq for e in two.read()] == [1, 2, 3]
        assert (one.last_number(), two.last_number()) == (2, 1)
        one.close()
        deadline = time.monotonic() + 5.0
        while not two.lead():  # until the server has let go of the lock
            assert time.monotonic() < deadline
            time.sleep(0.01)
        three = open_store(postgres_url)
        assert three.slot == 0
        assert three.last_number() == 2
        three.close()
    finally:
        one.close()
        two.close()


def test_waiting_ends_when_another_process_commits(postgres_url: str) -> None:
    one, two = open_store(postgres_url), open_store(postgres_url)
    two.wait(0.0)
    append(one, decided(1))
    done = threading.Event()
    thread = threading.Thread(target=lambda: (two.wait(20.0), done.set()))
    thread.start()
    assert done.wait(10.0)
    thread.join()
    one.close()
    two.close()


# -- versions ---------------------------------------------------------------------------------------

FORMATS = Path(__file__).parent.parent / "formats"


def test_a_later_version_is_refused(open_log: Callable[..., Store]) -> None:
    store = open_log()
    with store.transaction() as tx:
        tx.set_meta("schema_version", str(tables.VERSION + 1))
    store.close()
    with pytest.raises(FormatError, match="Upgrade kinbandits"):
        open_log()
    with pytest.raises(FormatError, match="upgrade kinbandits"):
        open_log(readonly=True)


@pytest.mark.parametrize("version", range(1, tables.VERSION + 1))
def test_a_kept_sqlite_log_of_each_version_opens(version: int, tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    path.write_bytes((FORMATS / f"service-v{version}.sqlite3").read_bytes())
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchall() == [(str(version),)]
    check_kept(open_store(str(path)))


@pytest.mark.parametrize("version", range(1, tables.VERSION + 1))
def test_a_kept_postgres_log_of_each_version_opens(version: int, postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute((FORMATS / f"service-v{version}.postgres.sql").read_text())
    check_kept(open_store(postgres_url))


def check_kept(store: Store) -> None:
    """The log that ``tests/service/keep_format.py`` wrote."""
    assert store.meta("schema_version") == str(tables.VERSION)
    assert [e.kind for e in store.read()] == ["decision", "decision", "reward"]
    assert [r.state for r in store.records()] == ["rewarded", "open"]
    assert store.tokens()[0].name == "kept"
    with store.transaction() as tx:
        tx.count("duplicate")
        tx.append([decided(3)])
    assert store.counters()["duplicate"] >= 1
    store.close()
