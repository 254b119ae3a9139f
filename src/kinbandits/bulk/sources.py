"""Which logs of services a policy was fitted to, so that no row is learned twice.

``kinbandits log export`` writes into its Parquet files which log they are of: its first event, its last (*head*)
and how many decisions. A fitted policy keeps it (``learned_from``); ``kinbandits serve --start`` looks there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kinbandits.errors import InvalidInputError

_NAME = b"kinbandits.log"


@dataclass(frozen=True)
class Source:
    """A log as it was exported."""

    first: str  # digest of its first event
    head: str  # its last event, as ``kinbandits log verify`` writes it (``seq:digest``)
    rows: int  # decisions up to there

    def to_metadata(self) -> dict[bytes, bytes]:
        return {_NAME: json.dumps(asdict(self)).encode()}

    @classmethod
    def of(cls, metadata: dict[bytes, bytes] | None) -> Source | None:
        """From the schema of a file; None if it is not of a service's log."""
        found = (metadata or {}).get(_NAME)
        return None if found is None else cls(**json.loads(found))


def together(files: Iterable[tuple[Source, int]]) -> dict[Source, int]:
    """The rows that there are of each log, from those of the files; two exports of one log are refused."""
    rows: dict[Source, int] = {}
    for source, n in files:
        rows[source] = rows.get(source, 0) + n
    logs = {source.first for source in rows}
    if len(logs) < len(rows) or any(n > source.rows for source, n in rows.items()):
        raise InvalidInputError("the files have several exports of one log, its rows twice; give the last of them")
    return rows


def learned_from(
    before: Sequence[dict[str, Any]], rows: dict[Source, int], all_times: bool, since: bool
) -> tuple[dict[str, Any], ...]:
    """What a policy keeps of the logs it has learned: what it kept ``before``, and the rows of each log now."""
    kept = {log["first"]: log for log in before}
    for source, n in rows.items():
        known = kept.get(source.first)
        if known is not None and not since:
            raise InvalidInputError(
                f"the policy has learned this log before, up to event {known['head'].partition(':')[0]}; add only "
                "later rows with since (--since)"
            )
        whole = all_times and n == source.rows and known is None
        kept[source.first] = {"first": source.first, "head": source.head, "whole": whole}
    return tuple(kept.values())
