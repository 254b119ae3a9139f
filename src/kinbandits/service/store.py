"""The log: its tables, and the statements that there are, for both databases (SQLAlchemy Core).

- Events are appended inside ``transaction()``; when its block is left, they are on disk.
- One process writes, one thread of it. So ``seq`` has no gaps, and who has read event n has read all before it.
- Reads may be made from any thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import eq, ge, lt
from typing import Any

import sqlalchemy as sa
from pydantic_core import from_json, to_json
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from kinbandits.errors import FormatError, InvalidInputError
from kinbandits.service.databases import Postgres, SQLite, StoreLockedError, StoreUnavailableError
from kinbandits.service.events import EDITS, Edits, Event, Record, decision_id

LAST = 2**62  # no log has so many events
FORMAT = 1
PROBE = 65_536  # characters: a nearly full disk may have room for a few

TABLES = sa.MetaData()
_LONG = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite's own row number must be INTEGER


def _table(name: str, /, *may_be_null: str, **columns: Any) -> sa.Table:
    """A table; its first column is the primary key."""
    key = next(iter(columns))
    made = [
        sa.Column(
            c, kind, primary_key=c == key, nullable=c in may_be_null, autoincrement=False, unique=c == "key" or None
        )
        for c, kind in columns.items()
    ]
    return sa.Table(name, TABLES, *made)


META = _table("meta", "value", name=sa.Text, value=sa.Text)
EVENTS = _table("events", "decision", seq=_LONG, kind=sa.Text, decision=sa.Text, at=sa.Double, body=sa.Text)
_fixed = {"number": _LONG, "seq": sa.BigInteger, "at": sa.Double, "arm": sa.Text, "state": sa.Text}
_later = {"key": sa.Text, "request": sa.Text, "reward": sa.Double, "learned": sa.Double}
DECISIONS = _table("decisions", *_later, **_fixed, **_later)
sa.Index("decisions_of_arms", DECISIONS.c.arm, DECISIONS.c.number)
PARTIAL_INDEXES = (  # in the words of both databases
    "CREATE INDEX events_of_arms ON events (seq) WHERE decision IS NULL OR kind = 'corrected'",
    "CREATE INDEX open_decisions ON decisions (at) WHERE state = 'open'",
)
# A policy that the model begins with: fitted elsewhere (``started``), or taught by what was archived (``archived``).
BEGINNINGS = _table(
    "beginnings", "stats", seq=_LONG, upto=sa.BigInteger, settings=sa.Text, policy=sa.LargeBinary, stats=sa.Text
)
RECORD = sa.select(
    *(DECISIONS.c[name] for name in ("number", "seq", "at")),
    EVENTS.c.body,
    *(DECISIONS.c[name] for name in ("state", "reward", "learned", "key", "request")),
).join_from(DECISIONS, EVENTS, DECISIONS.c.seq == EVENTS.c.seq)
RECORD_SQL = str(RECORD)
SET_OUTCOME = (
    DECISIONS.update()
    .where(DECISIONS.c.number == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in ("state", "reward", "learned")})
)


class Store:
    """An event log in a database."""

    def __init__(self, database: SQLite | Postgres) -> None:
        self.database, self.name = database, database.name
        self._writer: sa.Connection | None = None
        self._engines: list[sa.Engine] = []
        try:
            with self._translated("opened"):
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._engines.append(self.database.reader())
        self._reader = self._engines[0]
        if self.database.readonly:
            with self._reader.connect() as connection:
                if not sa.inspect(connection).has_table("events"):
                    raise InvalidInputError(f"there is no log in {self.name}; `kinbandits serve --store` makes one")
        else:
            self._engines.append(writer := self.database.writer())
            self._writer = writer.connect()
            self._mark = "?" if writer.dialect.positional else "%s"
            self._make_tables(self._writer)
        version = self.meta("format")
        if version != str(FORMAT):
            raise FormatError(
                f"{self.name} has format {version}; this release reads format {FORMAT}. Upgrade kinbandits to open it"
            )
        self.id = self.meta("id") or ""
        self.secret = bytes.fromhex(self.meta("secret") or "")

    def _make_tables(self, writer: sa.Connection) -> None:
        with writer.begin():
            if self.database.is_shared:  # two processes may come at once
                writer.execute(sa.select(sa.func.pg_advisory_xact_lock(1)))
            names = set(sa.inspect(writer).get_table_names())
            if names & set(TABLES.tables):
                if "beginnings" not in names:
                    raise FormatError(f"{self.name} is a log of another release, or not a log; this one cannot open it")
                return
            TABLES.create_all(writer)
            for index in PARTIAL_INDEXES:
                writer.exec_driver_sql(index)
            self.database.guard(writer, True)
            made = {"format": str(FORMAT), "id": secrets.token_hex(16), "secret": secrets.token_hex(16), "probe": ""}
            writer.execute(META.insert(), [{"name": name, "value": value} for name, value in made.items()])

    @contextmanager
    def _translated(self, what: str, writer: sa.Connection | None = None) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except PoolTimeoutError as error:
            raise StoreUnavailableError(f"{self.name} cannot be {what} now (others wait for it already)") from error
        except DBAPIError as error:
            raise self.database.trouble(error, what, writer) from error

    # -- writing --------------------------------------------------------------------------------

    def try_lock(self) -> bool:
        """Whether this process may write; a log in SQLite is locked as soon as it is open."""
        if self._writer is None:
            return False
        with self._translated("locked", self._writer):
            return self.database.try_lock(self._writer)

    def lock(self) -> None:
        """Become the writer, or raise that another process is."""
        if not self.try_lock():
            raise StoreLockedError(f"{self.name} is in use by another process; stop that service first")

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Write. When the block is left without an error, what was appended is on disk."""
        writer = self._writer
        if writer is None:
            raise StoreUnavailableError(f"{self.name} was opened for reading only, or is closed")
        with self._translated("written", writer), writer.begin():
            yield Transaction(writer, self._mark)

    def probe(self) -> None:
        """Write something and flush it, to see whether that can be done."""
        with self.transaction() as tx:
            tx.set_meta("probe", secrets.token_hex(PROBE // 2))

    def close(self) -> None:
        """Close connections and release the lock."""
        for engine in self._engines:  # readers first: SQLite's last connection tidies up, and must be one that writes
            engine.dispose()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self.database.close()

    # -- reading --------------------------------------------------------------------------------

    def query(self, statement: Any) -> Sequence[Any]:
        """Rows, from any thread."""
        with self.reading() as connection:
            return connection.execute(statement).all()

    def read(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """Events after ``seq``, in order."""
        return self._events(EVENTS.c.seq > after, limit)

    def _events(self, where: Any, limit: int | None = None) -> list[Event]:
        found = self.query(EVENTS.select().where(where).order_by(EVENTS.c.seq).limit(limit))
        return [Event(seq, kind, decision, at, from_json(body)) for seq, kind, decision, at, body in found]

    def read_all(self, after: int = 0, upto: int = LAST) -> Iterator[Event]:
        """All events after ``after``, in order, up to event ``upto``."""
        seq = EVENTS.c.seq
        while events := self._events((seq > after) & (seq <= upto), 5000):
            yield from events
            after = events[-1].seq

    def special(self, *kinds: str) -> list[Event]:
        """Events of rare kinds (arms, edits, beginnings), in order."""
        rare = EVENTS.c.decision.is_(None) | (EVENTS.c.kind == "corrected")
        return self._events(rare & EVENTS.c.kind.in_(kinds))

    def edits(self) -> Edits:
        """Corrections and roll-backs so far."""
        last = self.last_seq()  # first: a later edit is noticed when it is read
        return Edits(self.special(*EDITS), last)

    def last_seq(self) -> int:
        """The number of the last event; 0 if there is none."""
        return int(self.query(sa.select(sa.func.coalesce(sa.func.max(EVENTS.c.seq), 0)))[0][0])

    def last_at(self) -> float:
        """When the last event was written."""
        found = self.query(sa.select(EVENTS.c.at).order_by(EVENTS.c.seq.desc()).limit(1))
        return float(found[0][0]) if found else 0.0

    def archived(self, what: str = "upto") -> int:
        """The last event (or with "number" the last decision) that has left the log; 0 if none has."""
        return max([0, *(int(e.body[what]) for e in self.special("archived"))])

    def last_number(self, upto: int = LAST) -> int:
        """How many decisions were ever made, up to an event: the number of the last one."""
        found = self.query(sa.select(sa.func.max(DECISIONS.c.number)).where(DECISIONS.c.seq <= upto))[0][0]
        return max(int(found or 0), self.archived("number"))

    def record(self, identifier: str) -> Record | None:
        """The decision of this id."""
        found = self.query(RECORD.where(DECISIONS.c.number == int(identifier, 16)))
        return _record(found[0]) if found else None

    def all_records(self, upto: int = LAST) -> Iterator[Record]:
        """All decisions, in order, up to event ``upto``."""
        d, after = DECISIONS.c, 0
        wanted = RECORD.where(d.number > sa.bindparam("after"), d.seq <= upto).order_by(d.number).limit(5000)
        while rows := self.query(wanted.params(after=after)):
            yield from map(_record, rows)
            after = rows[-1][0]

    def find_records(
        self,
        *,
        state: str | None = None,
        arm: str | None = None,
        since: float | None = None,
        until: float | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Record]:
        """Decisions that fit, newest first; ``before`` is an id, to continue an earlier answer."""
        d, number = DECISIONS.c, None if before is None else int(before, 16)
        limits = ((eq, d.state, state), (eq, d.arm, arm), (ge, d.at, since), (lt, d.at, until), (lt, d.number, number))
        wanted = [compare(column, value) for compare, column, value in limits if value is not None]
        return [_record(row) for row in self.query(RECORD.where(*wanted).order_by(d.number.desc()).limit(limit))]

    def meta(self, name: str) -> str | None:
        """The text kept under this name."""
        found = self.query(sa.select(META.c.value).where(META.c.name == name))
        return str(found[0][0]) if found else None

    def beginning(self) -> Any:
        """What the model begins with, if not with nothing: seq, upto, settings, policy, stats."""
        found = self.query(BEGINNINGS.select().order_by(BEGINNINGS.c.seq.desc()).limit(1))
        return found[0] if found else None

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection to read with, from any thread."""
        with self._translated("read"), self._reader.connect() as connection:
            yield connection


class Transaction:
    """What may be done in a transaction. All of it is kept, or none.

    What every decision needs goes to the driver as it is (``mark`` is its sign for a value): it costs half as much.
    """

    def __init__(self, connection: sa.Connection, mark: str) -> None:
        self._connection, self._mark = connection, mark

    def find(self, ids: Iterable[str], keys: Iterable[str] = ()) -> list[Record]:
        """The decisions of these ids and keys, as far as there are any."""
        found: list[Record] = []
        for name, wanted in (("number", [int(i, 16) for i in ids]), ("key", list(keys))):
            if wanted:
                marks = ", ".join([self._mark] * len(wanted))
                sql = f"{RECORD_SQL} WHERE decisions.{name} IN ({marks})"
                found += map(_record, self._connection.exec_driver_sql(sql, tuple(wanted)))
        return found

    def overdue(self, before: float, limit: int) -> list[Record]:
        """Open decisions made before this time, oldest first."""
        d = DECISIONS.c
        wanted = RECORD.where(d.state == "open", d.at < before).order_by(d.at, d.number).limit(limit)
        return [_record(row) for row in self._connection.execute(wanted)]

    def append(self, events: Sequence[Event]) -> None:
        """Add events at the end, and decisions to their table."""
        rows, opened = [], []
        for e in events:
            text = to_json(e.body, inf_nan_mode="null").decode()
            rows.append((e.seq, e.kind, e.decision, e.at, text))
            if e.kind == "decision":
                number = int(e.decision or "", 16)
                opened.append((number, e.seq, e.at, str(e.body["arm"]), "open", e.key, e.request))
        for table, values in ((EVENTS, rows), (DECISIONS, opened)):
            if values:
                names = [c.name for c in table.columns][: len(values[0])]
                marks = ", ".join([self._mark] * len(names))
                sql = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks})"
                self._connection.exec_driver_sql(sql, values)

    def set_outcomes(self, records: Iterable[Record]) -> None:
        """Enter what became of decisions."""
        rows = [{"of": int(r.id, 16), "state": r.state, "reward": r.reward, "learned": r.learned} for r in records]
        if rows:
            self._connection.execute(SET_OUTCOME, rows)

    def set_meta(self, name: str, value: str) -> None:
        """Keep a text under a name that there is."""
        self._connection.execute(META.update().where(META.c.name == name).values(value=value))

    def begin_with(self, event: Event, settings: str, policy: bytes, stats: str | None) -> None:
        """Say what the model begins with, and keep it, in place of what it began with before."""
        self.append([event])
        self._connection.execute(BEGINNINGS.delete())
        row = {"seq": event.seq, "upto": event.body["upto"], "settings": settings, "policy": policy, "stats": stats}
        self._connection.execute(BEGINNINGS.insert(), row)

    def drop_before(self, database: SQLite | Postgres, upto: int) -> None:
        """Delete decisions and their events up to ``upto``; what is rare and small stays."""
        database.guard(self._connection, False)
        self._connection.execute(EVENTS.delete().where(EVENTS.c.seq <= upto, EVENTS.c.decision.is_not(None)))
        self._connection.execute(DECISIONS.delete().where(DECISIONS.c.seq <= upto))
        database.guard(self._connection, True)


def _record(row: Any) -> Record:
    number, seq, at, body, *rest = row
    return Record(decision_id(number), seq, at, from_json(body), *rest)


def open_store(url: str, *, create: bool = True, readonly: bool = False) -> Store:
    """The log at ``url``: a path or ``sqlite:///path``, or ``postgresql://...``.

    Args:
        url: where.
        create: make it if it is not there.
        readonly: do not lock it; only read. Works while a service writes it.
    """
    if url.startswith(("postgresql://", "postgres://")):
        return Store(Postgres(url.replace("postgres://", "postgresql://", 1), readonly=readonly))
    if "://" in url and not url.startswith("sqlite:///"):
        kind = url.partition("://")[0]
        raise InvalidInputError(
            f"there is no log of the kind {kind}://; name a file (SQLite), or postgresql://user@host/name"
        )
    return Store(SQLite(url.removeprefix("sqlite:///"), create=create, readonly=readonly))
