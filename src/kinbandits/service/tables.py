"""The tables of a log, and the statements that are used again and again."""

from __future__ import annotations

import sqlalchemy as sa

FORMAT = 1
COUNTED = ("duplicate", "conflicting", "dangling")
PROBE = 65_536  # characters: a nearly full disk may have room for a few

TABLES = sa.MetaData()
META = sa.Table("meta", TABLES, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text))
EVENTS = sa.Table(
    "events",
    TABLES,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("decision", sa.Text),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)
sa.Index("events_of_arms", EVENTS.c.seq, **{  # type: ignore[arg-type]
    f"{name}_where": sa.text("decision IS NULL OR kind = 'corrected'") for name in ("sqlite", "postgresql")
})  # fmt: skip
DECISIONS = sa.Table(
    "decisions",
    TABLES,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("arm", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("key", sa.Text, unique=True),
    sa.Column("request", sa.Text),
    sa.Column("reward", sa.Double),
    sa.Column("learned", sa.Double),
)
sa.Index("decisions_of_arms", DECISIONS.c.arm, DECISIONS.c.number)
sa.Index("open_decisions", DECISIONS.c.at, **{  # type: ignore[arg-type]
    f"{name}_where": sa.text("state = 'open'") for name in ("sqlite", "postgresql")
})  # fmt: skip
COUNTERS = sa.Table(
    "counters", TABLES, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.BigInteger, nullable=False)
)
# A policy that the model begins with: fitted elsewhere (``started``), or taught by what was archived (``archived``).
BEGINNINGS = sa.Table(
    "beginnings",
    TABLES,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("upto", sa.BigInteger, nullable=False),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("policy", sa.LargeBinary, nullable=False),
    sa.Column("stats", sa.Text),
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
