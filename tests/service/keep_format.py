"""Write a small log of the current (or an older) schema version, to be kept in tests/formats.

    python tests/service/keep_format.py VERSION

An SQLite file, and SQL text for PostgreSQL.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kinbandits.service import tables
from kinbandits.service.events import Draft, decision_id
from kinbandits.service.sqlite import SQLiteStore
from kinbandits.service.store import Token

FORMATS = Path(__file__).parent.parent / "formats"


def write(version: int) -> None:
    FORMATS.mkdir(exist_ok=True)
    path = FORMATS / f"service-v{version}.sqlite3"
    path.unlink(missing_ok=True)
    newest, tables.VERSION = tables.VERSION, version
    store = SQLiteStore(path)
    body = {"context": [0.5], "candidates": ["a", "b"], "arm": "a", "index": 0, "propensity": 0.95, "mean": 0.0}
    row = {"reward": 1.0, "arm": "a", "context": [0.5], "delay": 1.0}
    with store.transaction() as tx:
        tx.append([Draft("decision", 100.0 + i, body, decision_id(0, 1 + i), None, None) for i in range(2)])
        tx.append([Draft("reward", 103.0, row, decision_id(0, 1))])
        tx.add_token(Token("kept", "0" * 64, ("read",), 99.0, None))
    lines = [s + ";" for v in range(1, version + 1) for s in tables.statements(v, tables.POSTGRES)]
    for table in ("meta", "events", "decisions", "tokens"):
        for values in store._write(f"SELECT * FROM {table}"):
            lines.append(f"INSERT INTO {table} VALUES ({', '.join(map(literal, values))});")
    store._write("PRAGMA wal_checkpoint(TRUNCATE)")
    store._write("PRAGMA journal_mode = DELETE")
    store.close()
    path.with_name(path.name + ".lock").unlink()
    (FORMATS / f"service-v{version}.postgres.sql").write_text("\n".join(lines) + "\n")
    tables.VERSION = newest


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    write(int(sys.argv[1]))
