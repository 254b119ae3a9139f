"""Logs of Vowpal Wabbit in its contextual-bandit JSON, one round a line.

    {"_label_cost": -1.0, "_label_probability": 0.8, "_label_Action": 2, "_labelIndex": 1,
     "a": [2, 1], "p": [0.8, 0.2],
     "c": {"context": {"x0": 0.3, "x1": 0.7}, "_multi": [{"arm": {"name": "red"}}, {"arm": {"name": "blue"}}]}}

This is ``--dsjson``; ``--json``, where the features stand beside the label, is read too. A cost is minus a reward.
Features are named within namespaces: a number is a feature of that value, text is one of value 1 named by both
(``"hour": "noon"`` is ``hour=noon``), what is absent is 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinbandits.errors import FormatError, InvalidInputError
from kinbandits.log_rows import ArmName
from kinbandits.logs import Log

__all__ = ["read_vw"]

NameOf = Callable[[Mapping[str, Any], int], ArmName]


def read_vw(
    source: str | PathLike[str] | Iterable[str],
    *,
    arm: NameOf | None = None,
    arms: Sequence[ArmName] | None = None,
    columns: Sequence[str] | None = None,
) -> tuple[Log, list[str]]:
    """A file (or lines) of either layout as a log, and the names of the context's columns.

    Rounds without a label are left out, as VW does. The context is the shared features followed by those of the
    candidate (other than its name), in columns ``namespace.feature``; where candidates have features of their own
    there is a context per candidate.

    Args:
        source: a path, or lines.
        arm: the name of a candidate, from its JSON and its place; default: ``name`` in the namespace ``arm``,
            the feature ``id``, or the place.
        arms: known names, to which the text in the file is matched (so that ``"3"`` is the arm 3 again).
        columns: which columns, in this order; default: all there are, sorted.

    Example:
        >>> line = '{"_label_cost": -1, "_label_probability": 0.5, "_labelIndex": 0, "U": {"age": 3, "sex": "f"}, '
        >>> log, columns = read_vw([line + '"_multi": [{"id": "red"}, {"id": "blue"}]}'])
        >>> columns, log.contexts, log.played_arms
        (['U.age', 'U.sex=f'], array([[3., 1.]]), ['red'])
    """
    if isinstance(source, str | PathLike):
        if not Path(source).is_file():
            raise InvalidInputError(f"there is no file {source}; lines must be given as a list")
        source = Path(source).read_text(encoding="utf-8").split("\n")
    lines = [(number, line) for number, line in enumerate(source, 1) if line.strip()]
    rounds = [found for number, line in lines if (found := _round(line, number, arm or _arm_of))]
    if not rounds:
        raise InvalidInputError("there is no labelled round in the file")
    own_names = {name for r in rounds for action in r.own for name in action}
    names = sorted({name for r in rounds for name in r.shared} | own_names) if columns is None else list(columns)
    own = not own_names.isdisjoint(names)
    contexts: list[Any] = []
    for r in rounds:
        rows = [{**r.shared, **action} for action in r.own] if own else [r.shared]
        table = np.array([[row.get(name, 0.0) for name in names] or [1.0] for row in rows])
        contexts.append(table if own else table[0])
    known = {str(a): a for a in arms or ()}
    log = Log.of_rounds(
        contexts,
        [[known.get(str(a), a) for a in r.names] for r in rounds],
        *([getattr(r, field) for r in rounds] for field in ("chosen", "reward", "propensity")),
    )
    return log, names or ["constant"]


class _Round(NamedTuple):
    """One line, read: names, features by name, and the choice."""

    names: list[ArmName]
    shared: dict[str, float]
    own: list[dict[str, float]]
    chosen: int
    reward: float
    propensity: float


def _round(line: str, number: int, arm: NameOf) -> _Round | None:
    try:
        data = json.loads(line)
        if not isinstance(data, dict):
            raise ValueError("a line must be a JSON object")
        label = {key.lower(): value for key, value in data.items()}
        if "_label_cost" not in label:
            return None
        body = data.get("c", data)
        actions = body["_multi"]
        chosen = int(label["_labelindex"]) if "_labelindex" in label else int(label["_label_action"]) - 1
        if not isinstance(actions, list) or not 0 <= chosen < len(actions):
            raise ValueError(f"the label names action {chosen + 1} of {len(actions)}")
        reward, p = -float(label["_label_cost"]), float(label["_label_probability"])
        if not 0.0 < p <= 1.0 or not np.isfinite(reward):
            raise ValueError(f"cost {label['_label_cost']}, probability {p}")
        own = [dict(_flat({k: v for k, v in a.items() if k not in ("arm", "id")})) for a in actions]
        shared = dict(_flat({k: v for k, v in body.items() if k != "_multi"}))
        return _Round([arm(action, i) for i, action in enumerate(actions)], shared, own, chosen, reward, p)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"line {number} is no round in VW's JSON ({type(error).__name__}: {error})") from error


def _arm_of(action: Mapping[str, Any], place: int) -> ArmName:
    given = action.get("arm", action.get("id"))
    if isinstance(given, Mapping):
        given = given.get("name", given.get("id"))
    return given if isinstance(given, str | int) and not isinstance(given, bool) else place


def _flat(body: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Features by their full name, as VW would name them; what begins with an underscore is no feature."""
    for key, value in body.items():
        name = f"{prefix}{key}"
        if key.startswith("_") or value is None or value is False:
            continue
        if isinstance(value, int | float):
            yield name, float(value)
        elif isinstance(value, str):
            yield f"{name}={value}", 1.0
        elif isinstance(value, Mapping | list):
            items = value if isinstance(value, Mapping) else {str(i): item for i, item in enumerate(value)}
            yield from _flat(items, f"{name}.")
