"""The tables, version by version. A database is brought forward step by step; a newer one is refused.

Words that differ between SQLite and PostgreSQL are written in braces. A step is never edited once released:
``tests/formats`` keeps a database of each version.
"""

from __future__ import annotations

SQLITE = {
    "real": "REAL",
    "blob": "BLOB",
    "text": "TEXT",
    "int": "INTEGER",
    "arm": "CAST(json_extract(e.body, '$.arm') AS TEXT)",
}
POSTGRES = {
    "real": "DOUBLE PRECISION",
    "blob": "BYTEA",
    "text": 'TEXT COLLATE "C"',
    "int": "BIGINT",
    "arm": "e.body::jsonb ->> 'arm'",
}

STEPS: dict[int, tuple[str, ...]] = {
    1: (
        """CREATE TABLE events (
            seq {int} PRIMARY KEY, kind {text} NOT NULL, decision {text}, at {real} NOT NULL,
            body {text} NOT NULL, digest {text} NOT NULL)""",
        """CREATE TABLE decisions (
            id {text} PRIMARY KEY, seq {int} NOT NULL, at {real} NOT NULL, state {text} NOT NULL,
            reward {real}, key {text} UNIQUE, request {text})""",
        "CREATE INDEX open_decisions ON decisions (at) WHERE state = 'open'",
        "CREATE TABLE snapshots (seq {int} PRIMARY KEY, at {real} NOT NULL, data {blob} NOT NULL)",
        """CREATE TABLE tokens (
            name {text} PRIMARY KEY, hash {text} NOT NULL UNIQUE, roles {text} NOT NULL, at {real} NOT NULL,
            revoked {real})""",
        "CREATE TABLE meta (name {text} PRIMARY KEY, value {text} NOT NULL)",
    ),
    # Repeated and dangling rewards are not events (nothing happened), but operators want them counted.
    2: ("CREATE TABLE counters (name {text} PRIMARY KEY, value {int} NOT NULL)",),
    # Decisions are listed in order and by arm. Sessions are kept as hashes; the secret that signed them goes.
    3: (
        "CREATE UNIQUE INDEX decisions_in_order ON decisions (seq)",
        "ALTER TABLE decisions ADD COLUMN arm {text}",
        "UPDATE decisions SET arm = (SELECT {arm} FROM events e WHERE e.seq = decisions.seq)",
        "CREATE TABLE sessions (hash {text} PRIMARY KEY, token {text} NOT NULL, until {real} NOT NULL)",
        "DELETE FROM meta WHERE name = 'session_secret'",
        "DELETE FROM snapshots",  # of an older format
        "CREATE INDEX edits ON events (seq) WHERE kind IN ('corrected', 'rolled_back')",
    ),
}
VERSION = max(STEPS)


def statements(version: int, words: dict[str, str]) -> list[str]:
    """What brings a database of the version before to this one."""
    return [step.format(**words) for step in STEPS[version]]
