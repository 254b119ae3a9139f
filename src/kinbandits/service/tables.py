"""The tables of a log, and the statements that are used again and again."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

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
FIND = {
    c.name: RECORD.where(c.in_(sa.bindparam("wanted", expanding=True))) for c in (DECISIONS.c.number, DECISIONS.c.key)
}
SET_OUTCOME = (
    DECISIONS.update()
    .where(DECISIONS.c.number == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in ("state", "reward", "learned")})
)
