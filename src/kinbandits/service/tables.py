"""The tables of a log, and the statements that are used again and again."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

FORMAT = 1
COUNTED = ("duplicate", "conflicting", "dangling")
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


def _partial_index(name: str, column: Any, where: str) -> None:
    sa.Index(name, column, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


META = _table("meta", "value", name=sa.Text, value=sa.Text)
EVENTS = _table("events", "decision", seq=_LONG, kind=sa.Text, decision=sa.Text, at=sa.Double, body=sa.Text)
_partial_index("events_of_arms", EVENTS.c.seq, "decision IS NULL OR kind = 'corrected'")
_fixed = {"number": _LONG, "seq": sa.BigInteger, "at": sa.Double, "arm": sa.Text, "state": sa.Text}
_later = {"key": sa.Text, "request": sa.Text, "reward": sa.Double, "learned": sa.Double}
DECISIONS = _table("decisions", *_later, **_fixed, **_later)
sa.Index("decisions_of_arms", DECISIONS.c.arm, DECISIONS.c.number)
_partial_index("open_decisions", DECISIONS.c.at, "state = 'open'")
COUNTERS = _table("counters", name=sa.Text, value=sa.BigInteger)
# A policy that the model begins with: fitted elsewhere (``started``), or taught by what was archived (``archived``).
BEGINNINGS = _table(
    "beginnings", "stats", seq=_LONG, upto=sa.BigInteger, settings=sa.Text, policy=sa.LargeBinary, stats=sa.Text
)
RECORD = sa.select(
    *(DECISIONS.c[name] for name in ("number", "seq", "at")),
    EVENTS.c.body,
    *(DECISIONS.c[name] for name in ("state", "reward", "learned", "key", "request")),
).join_from(DECISIONS, EVENTS, DECISIONS.c.seq == EVENTS.c.seq)
FIND = {
    c.name: RECORD.where(c.in_(sa.bindparam("wanted", expanding=True))) for c in (DECISIONS.c.number, DECISIONS.c.key)
}
SET_OUTCOME = (
    DECISIONS.update()
    .where(DECISIONS.c.number == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in ("state", "reward", "learned")})
)
COUNT = (
    COUNTERS.update().where(COUNTERS.c.name == sa.bindparam("of")).values(value=COUNTERS.c.value + sa.bindparam("more"))
)
