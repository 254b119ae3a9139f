"""The two homes of a log: how to connect, who may write, and what an error means.

SQLite        one file in WAL mode with ``synchronous=FULL``; the writer holds an operating-system lock on a file
              beside it, which dies with its process. All other connections are read-only.
PostgreSQL    the writer's session holds an advisory lock; another process waits for it, as a hot standby. When
              process or connection dies, the server releases the lock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from kinbandits._files import hold
from kinbandits.errors import FormatError, InvalidInputError, KinbanditsError, package

_LOCK = 0x6B696E62  # "kinb", the advisory lock of the writer
_CHECKPOINT_PAGES = 4000  # of the WAL (16 MB)
_REFUSAL = "events are only ever added"


class StoreUnavailableError(KinbanditsError, RuntimeError):
    """The log cannot be written or read now; nothing is known to be lost. Try again."""


class StoreDamagedError(FormatError, StoreUnavailableError):
    """The log's files are damaged: stop, and restore a backup."""


class StoreLostError(StoreUnavailableError):
    """The connection that held the writer's lock is gone: this process must not write any more."""


class StoreLockedError(KinbanditsError, RuntimeError):
    """Another process is writing this log."""


class SQLite:
    """The log in one file."""

    is_shared = False

    def __init__(self, path: str | Path, *, create: bool, readonly: bool) -> None:
        self.path = Path(os.path.realpath(path))  # a link to a log is that log, with its one lock
        self.name = str(path)
        self.readonly = readonly
        self.folder = self.path.with_name(self.path.name + ".snapshots")
        self._wal = self.path.with_name(self.path.name + "-wal")
        if not self.path.exists() and (readonly or not create):
            raise InvalidInputError(f"there is no log {path}; `kinbandits serve` makes one")
        self._lock: Any = None
        if not readonly:
            self._take_lock()

    def _take_lock(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # it holds contexts: for its owner alone
            self._lock = self.path.with_name(self.path.name + ".lock").open("a")
        except OSError as error:
            raise StoreUnavailableError(f"{self.name} cannot be opened for writing ({error.strerror})") from error
        try:
            hold(self._lock.fileno())
        except OSError:
            self.close()
            text = "is in use by another process; stop that service first, or use PostgreSQL for a standby"
            raise StoreLockedError(f"{self.name} {text}") from None

    def writer(self) -> sa.Engine:
        """To write."""

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            for pragma in ("journal_mode = WAL", "synchronous = FULL", f"wal_autocheckpoint = {_CHECKPOINT_PAGES}"):
                connection.execute(f"PRAGMA {pragma}")
            return connection

        engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        return engine

    def reader(self) -> sa.Engine:
        """To read, from any thread, also where this process may not write beside the log."""
        mode = "mode=ro"
        if self.readonly and not os.access(self.path.parent, os.W_OK):
            if self._wal.exists():
                raise StoreUnavailableError(
                    f"{self.name} is in use, or was left by a crash, in a folder that this user may not write to: read "
                    "a backup instead, or read it as its owner"
                )
            mode = "immutable=1"  # nobody is writing, and SQLite needs no files of its own
        uri = f"{self.path.as_uri()}?{mode}"
        return sa.create_engine(
            "sqlite://",
            creator=lambda: sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False),
            poolclass=sa.QueuePool,
            pool_size=4,
            hide_parameters=True,
        )

    def try_lock(self, writer: sa.Connection) -> bool:
        """It was taken when the log was opened."""
        return True

    def guard(self, writer: sa.Connection, on: bool) -> None:
        """Have the database itself refuse to change or delete events."""
        for what in ("UPDATE", "DELETE"):
            name = f"events_no_{what.lower()}"
            make = f"{name} BEFORE {what} ON events BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
            writer.exec_driver_sql(f"CREATE TRIGGER IF NOT EXISTS {make}" if on else f"DROP TRIGGER IF EXISTS {name}")
        if not on:
            writer.exec_driver_sql("PRAGMA secure_delete = ON")

    def trouble(self, error: DBAPIError, what: str, writer: sa.Connection | None = None) -> StoreUnavailableError:
        """What an error means: disk full, I/O error, damage."""
        raw = None if writer is None or writer.closed else writer.connection.dbapi_connection
        if raw is not None and getattr(raw, "in_transaction", False):  # a COMMIT that failed
            with contextlib.suppress(sqlite3.Error):
                raw.rollback()
        if isinstance(error, OperationalError):
            return StoreUnavailableError(f"{self.name} cannot be {what} now ({error.orig})")
        return StoreDamagedError(f"{self.name} is not a kinbandits log, or it is damaged ({error.orig})")

    def check(self, connection: sa.Connection) -> list[str]:
        """What the database itself says is wrong with its files."""
        found = [row[0] for row in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    def sizes(self) -> tuple[int, int] | None:
        """Bytes of the log, and bytes free beside it."""
        size = sum(f.stat().st_size for f in (self.path, self._wal) if f.exists())
        return size, shutil.disk_usage(self.path.parent).free

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class Postgres:
    """The log in a database of a server."""

    is_shared = True
    folder: Path | None = None  # snapshots are in `snapshots.local_folder`

    def __init__(self, url: str, *, readonly: bool) -> None:
        package("psycopg", "a log in PostgreSQL needs", "'kinbandits[postgres]'")
        try:
            self._url = sa.make_url(url).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError):
            text = "the address of the database cannot be read; it is like postgresql://user@host/database"
            raise InvalidInputError(text) from None
        # Messages name no password, wherever it is in the address.
        host = self._url.host or self._url.query.get("host") or "localhost"
        self.name = f"postgresql://{host if isinstance(host, str) else host[0]}/{self._url.database or ''}"
        self.readonly = readonly

    def _engine(self, statement_seconds: int, **pool: Any) -> sa.Engine:
        args: dict[str, Any] = {"connect_timeout": 4, "keepalives_idle": 5, "keepalives_interval": 2}
        own = f"-c statement_timeout={statement_seconds}s -c idle_in_transaction_session_timeout=10s"
        given = self._url.query.get("options") or ""
        args |= {"keepalives_count": 3, "options": f"{own} {given if isinstance(given, str) else ' '.join(given)}"}
        return sa.create_engine(self._url, connect_args=args, hide_parameters=True, **pool)

    def writer(self) -> sa.Engine:
        """To write."""
        engine = self._engine(120, poolclass=NullPool)

        def connected(connection: Any, record: object) -> None:
            with connection.cursor() as cursor:
                if cursor.execute("SHOW synchronous_commit").fetchone() == ("off",):
                    cursor.execute("SET synchronous_commit TO on")
            connection.commit()

        sa.event.listen(engine, "connect", connected)
        return engine

    def reader(self) -> sa.Engine:
        """To read, from any thread."""
        return self._engine(120 if self.readonly else 8, pool_size=4, pool_timeout=5, pool_pre_ping=True)

    def try_lock(self, writer: sa.Connection) -> bool:
        """Whether this session is the writer; asking tries to become it."""
        with writer.begin():
            return bool(writer.scalar(sa.select(sa.func.pg_try_advisory_lock(_LOCK))))

    def guard(self, writer: sa.Connection, on: bool) -> None:
        """Have the database itself refuse to change or delete events."""
        if not on:
            writer.exec_driver_sql("DROP TRIGGER IF EXISTS events_only_added ON events")
            return
        body = f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
        writer.exec_driver_sql(
            f"CREATE OR REPLACE FUNCTION kinbandits_refuse() RETURNS trigger LANGUAGE plpgsql AS {body}"
        )
        writer.exec_driver_sql(
            "CREATE OR REPLACE TRIGGER events_only_added BEFORE UPDATE OR DELETE OR TRUNCATE ON events "
            "FOR EACH STATEMENT EXECUTE FUNCTION kinbandits_refuse()"
        )

    def trouble(self, error: DBAPIError, what: str, writer: sa.Connection | None = None) -> StoreUnavailableError:
        """What an error means: lost, read-only, too slow."""
        text = f"{self.name} cannot be {what} now ({str(error.orig).strip().partition(chr(10))[0]})"
        lost = writer is not None and error.connection_invalidated
        return StoreLostError(text) if lost else StoreUnavailableError(text)

    def check(self, connection: sa.Connection) -> list[str]:
        """PostgreSQL has checksums of its own, which reading looks at."""
        return []

    def sizes(self) -> tuple[int, int] | None:
        """The database's own monitoring knows."""
        return None

    def close(self) -> None:
        """The lock goes with the session."""
