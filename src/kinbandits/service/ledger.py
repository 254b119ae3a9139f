"""The rules: what each command writes, and how it is answered.

Commands are taken in order, each seeing what those before it have done. A `Problem` is an answer too.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import to_json

from kinbandits.errors import InvalidInputError, KinbanditsError
from kinbandits.service import choose
from kinbandits.service.config import LARGEST, ServiceSettings, check_arms
from kinbandits.service.events import ArmName, Body, Event, Record, decision_id, step
from kinbandits.service.learner import Serving
from kinbandits.service.messages import Problem, unknown_decision
from kinbandits.service.store import Transaction

Answer = dict[str, Any]
Result = Answer | Problem

# -- what can be asked ------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Decide:
    """Choose an arm: one context for all candidates, or one for each."""

    context: list[float] | list[list[float]]
    arms: list[ArmName] | None = None
    key: str | None = None

    def fingerprint(self) -> str:
        """A digest of the request, to tell a repeat from another request with the same key."""
        return hashlib.blake2b(to_json([self.context, self.arms]), digest_size=16).hexdigest()


@dataclass(eq=False, slots=True)
class Reward:
    """The reward of a decision, which is named by its id, or by its idempotency key."""

    id: str | None
    value: float
    key: str | None = None


@dataclass(eq=False, slots=True)
class Void:
    """The decision was not carried out."""

    id: str
    reason: str


@dataclass(eq=False, slots=True)
class Correct:
    """Learn another reward, or none (None)."""

    id: str
    value: float | None
    by: str


@dataclass(eq=False, slots=True)
class RollBack:
    """Forget what was learned after event ``to``."""

    to: int
    by: str


@dataclass(eq=False, slots=True)
class AddArm:
    """Add an arm, or have a retired one return."""

    arm: ArmName
    by: str
    descriptor: list[float] | None = None
    similarity: list[float] | None = None
    neighbours: list[ArmName] | None = None


@dataclass(eq=False, slots=True)
class RetireArm:
    """Do not choose this arm any more."""

    arm: ArmName
    by: str


Command = Decide | Reward | Void | Correct | RollBack | AddArm | RetireArm


# -- what is done -----------------------------------------------------------------------------------


@dataclass
class Position:
    """Where the log ends, as far as the next events depend on it."""

    seq: int
    number: int  # of the last decision
    at: float
    archived: int  # events up to this one have left the log
    features: int | None
    active: dict[ArmName, bool]  # all arms; whether they may be chosen
    counters: Counter[str]  # rewards that changed nothing, by why, since the start

    def copy(self) -> Position:
        """To work on; it is kept only when all is on disk."""
        return replace(self, active=dict(self.active), counters=self.counters.copy())


class Ledger:
    """One transaction's commands."""

    def __init__(
        self,
        tx: Transaction,
        now: float,
        position: Position,
        serving: Serving,
        settings: ServiceSettings,
        secret: bytes,
        try_arm: Callable[[Body], None],
    ) -> None:
        self.tx, self.now, self.position, self.serving = tx, max(now, position.at), position, serving
        self.settings, self.secret, self.try_arm = settings, secret, try_arm
        self.events: list[Event] = []
        self._records: dict[str, Record] = {}
        self._ids: dict[str, str] = {}  # by key
        self._chosen: dict[Decide, tuple[str, Body] | Problem] = {}
        self._changed: set[str] = set()
        active = [arm for arm, is_active in position.active.items() if is_active and arm in serving.arms]
        self.active = None if len(active) == len(serving.playable) else active  # None: all that the policy knows
        self.n_active = len(active)

    def apply(self, commands: Sequence[Command]) -> list[Result]:
        """Write all commands, in the transaction; the answer to each."""
        ids = [c.id for c in commands if isinstance(c, Reward | Void | Correct) and c.id is not None]
        keys = [c.key for c in commands if isinstance(c, Decide | Reward) and c.key is not None]
        for record in self.tx.find(ids, keys) if ids or keys else ():
            self._keep(record)
        decides = [c for c in commands if isinstance(c, Decide)]
        first = {c.key: c for c in reversed(decides)}  # of several with one key
        self._choose([c for c in decides if c.key is None or (c.key not in self._ids and first[c.key] is c)])
        results: list[Result] = []
        for command in commands:
            try:
                results.append(_RULES[type(command)](self, command))
            except Problem as problem:
                results.append(problem)
        self._write()
        return results

    def sweep(self, limit: int) -> int:
        """Default the decisions whose wait is over; how many there were."""
        overdue = self.tx.overdue(self.now - self.settings.reward_wait, limit)
        for record in overdue:
            self._default(record)
        self._write()
        return len(overdue)

    def _write(self) -> None:
        self.tx.append(self.events)
        self.tx.set_outcomes(self._records[i] for i in self._changed)

    def _keep(self, record: Record) -> None:
        self._records[record.id] = record
        if record.key is not None:
            self._ids[record.key] = record.id

    def _add(self, kind: str, body: Body, decision: str | None = None, **more: str | None) -> Event:
        self.position.seq += 1
        self.position.at = self.now
        self.events.append(Event(self.position.seq, kind, decision, self.now, body, **more))
        return self.events[-1]

    def _settle(self, record: Record, kind: str, body: Body, **after: Any) -> Record:
        """An event about a decision, and what it makes of it."""
        state = step(record.state, self._add(kind, body, record.id))
        assert state is not None
        self._records[record.id] = record._replace(state=state, **after)
        self._changed.add(record.id)
        return self._records[record.id]

    # -- decisions ------------------------------------------------------------------------------

    def _choose(self, commands: Sequence[Decide]) -> None:
        """Choose for these, all at once."""
        fit: list[Decide] = []
        for command in commands:
            try:
                self.check(command)
                fit.append(command)
            except Problem as problem:
                self._chosen[command] = problem
        first = self.position.number + 1
        self.position.number += len(fit)
        bodies = choose.choose(fit, first, self.serving, self.active, self.secret)
        for number, (command, body) in enumerate(zip(fit, bodies, strict=True), first):
            self._chosen[command] = body if isinstance(body, Problem) else (decision_id(number), body)

    def check(self, command: Decide) -> None:
        """Raise a `Problem` if the request does not fit arms and contexts; the first one settles their length."""
        arms, position = command.arms, self.position
        for arm in arms or ():
            if arm not in position.active:
                raise Problem(404, "unknown_arm", "arms names an arm that this policy does not have")
            if not position.active[arm]:
                raise Problem(409, "retired_arm", "arms names an arm that is retired")
            if arm not in self.serving.arms:
                raise Problem(503, "unavailable", "arms names an arm that is being added; try again")
        candidates = self.n_active if arms is None else len(arms)
        if not candidates:
            raise Problem(422, "no_candidates", "arms is empty; leave it out to choose among all")
        if candidates > self.settings.max_candidates:
            raise Problem(409, "too_many_candidates", f"there are more than {self.settings.max_candidates} candidates")
        context = command.context
        rows = context if isinstance(context[0], list) else [context]
        if len(rows) not in (1, candidates):
            text = f"context has {len(rows)} rows for {candidates} candidates; send one row for each"
            raise Problem(409, "context_shape", text)
        n = position.features or len(rows[0])
        if any(len(row) != n for row in rows):
            wanted = "rows of equal length" if position.features is None else f"{n} numbers"
            raise Problem(409, "context_length", f"a context of this service has {wanted}")
        position.features = n

    def _decide(self, command: Decide) -> Answer:
        request = None if command.key is None else command.fingerprint()
        if command.key is not None and command.key in self._ids:
            earlier = self._records[self._ids[command.key]]
            if earlier.request != request:
                raise Problem(409, "key_reused", "this idempotency key was used for another request")
            return _answer(earlier.id, earlier.body)
        if command not in self._chosen:  # an earlier one with its key was refused
            self._choose([command])
        chosen = self._chosen[command]
        if isinstance(chosen, Problem):
            raise chosen
        identifier, body = chosen
        event = self._add("decision", body, identifier, key=command.key, request=request)
        self._keep(Record(identifier, event.seq, self.now, body, "open", key=command.key, request=request))
        return _answer(identifier, body)

    def _find(self, identifier: str | None) -> Record:
        record = self._records.get(identifier or "")
        if record is None:
            raise unknown_decision()
        return record

    def _reward(self, command: Reward) -> Answer:
        identifier = command.id if command.id is not None else self._ids.get(command.key or "")
        if identifier not in self._records:
            self.position.counters["dangling"] += 1
        record = self._find(identifier)
        if record.state in ("rewarded", "late"):
            if record.reward != command.value:
                self.position.counters["conflicting"] += 1
                raise Problem(409, "reward_conflict", "this decision already has another reward")
            self.position.counters["duplicate"] += 1
            return _outcome(record)
        if record.state in ("void", "withdrawn"):
            raise Problem(409, record.state, f"this decision is {record.state}; it takes no reward")
        self._check_reward(command.value)
        delay, value = self.now - record.at, command.value
        if record.state == "open" and self.settings.reward_wait and delay > self.settings.reward_wait:
            record = self._default(record)
        body = {"reward": value, "delay": delay}
        kind = "reward" if record.state == "open" else "late"
        if record.learned is not None:  # the default has taught something
            return _outcome(self._settle(record, kind, body, reward=value))
        body |= choose.learned_row(record.body)
        return _outcome(self._settle(record, kind, body, reward=value, learned=value))

    def _default(self, record: Record) -> Record:
        reward = self.settings.default_reward
        row = {} if reward is None else choose.learned_row(record.body)
        return self._settle(record, "default", {"reward": reward, **row}, learned=reward)

    def _void(self, command: Void) -> Answer:
        record = self._find(command.id)
        if record.state == "void":
            return _outcome(record)
        if record.state != "open":
            raise Problem(409, "not_open", f"this decision is {record.state} and can no longer be void")
        return _outcome(self._settle(record, "void", {"reason": command.reason}))

    def _check_reward(self, value: float) -> None:
        low, high = self.serving.policy.reward_range or (-LARGEST, LARGEST)
        if not (math.isfinite(value) and low <= value <= high):
            raise Problem(409, "reward_range", f"a reward of this service is between {low:g} and {high:g}")

    # -- what was learned, otherwise ------------------------------------------------------------

    def _correct(self, command: Correct) -> Answer:
        record = self._find(command.id)
        if record.state in ("open", "void"):
            raise Problem(409, "not_rewarded", f"this decision is {record.state}; there is no reward to correct")
        if command.value is not None:
            self._check_reward(command.value)
        state = "withdrawn" if command.value is None else "rewarded"
        if (record.state, record.reward) == (state, command.value):
            return _outcome(record)
        body: Body = {"reward": command.value, "was": record.learned, "state": record.state, "since": record.seq}
        body |= {"arm": record.body["arm"], "by": command.by}
        if record.state == "defaulted" and record.learned is None:  # its one row is in this event
            body |= choose.learned_row(record.body)
        return _outcome(self._settle(record, "corrected", body, reward=command.value, learned=command.value))

    def _roll_back(self, command: RollBack) -> Answer:
        first, last = self.position.archived, self.position.seq
        if not first <= command.to < last:
            raise Problem(
                409, "no_such_event", f"the log has events {first + 1} to {last}; name an earlier one of them"
            )
        return {"to": command.to, "seq": self._add("rolled_back", {"to": command.to, "by": command.by}).seq}

    # -- arms -----------------------------------------------------------------------------------

    def _add_arm(self, command: AddArm) -> Answer:
        arm, active = command.arm, self.position.active
        if active.get(arm):
            raise Problem(409, "arm_exists", "there is an active arm of this name; choose another")
        if arm in active:
            return self._set_arm("arm_returned", {"arm": arm, "by": command.by})
        try:
            check_arms([*active, arm])
        except InvalidInputError:
            raise Problem(409, "arm_exists", "there is an arm that looks the same in a path") from None
        details = {name: getattr(command, name) for name in ("descriptor", "similarity", "neighbours")}
        body: Body = {"arm": arm, "by": command.by, **details}
        try:
            self.try_arm(body)
        except KinbanditsError:
            text = "send the descriptor, similarity or neighbours that the policy's similarity needs for a new arm"
            raise Problem(409, "arm_refused", f"{text}, of the right length") from None
        return self._set_arm("arm_added", body)

    def _retire_arm(self, command: RetireArm) -> Answer:
        active = self.position.active
        if command.arm not in active:
            raise Problem(404, "unknown_arm", "there is no arm of this name")
        if not active[command.arm]:
            return {"arm": command.arm, "retired": True, "seq": self.position.seq}
        if sum(active.values()) == 1:
            raise Problem(409, "last_arm", "this is the last active arm; add another before retiring it")
        return self._set_arm("arm_retired", {"arm": command.arm, "by": command.by})

    def _set_arm(self, kind: str, body: Body) -> Answer:
        retired = kind == "arm_retired"
        self.position.active[body["arm"]] = not retired
        return {"arm": body["arm"], "retired": retired, "seq": self._add(kind, body).seq}


_RULES: dict[type, Callable[[Ledger, Any], Answer]] = {
    Decide: Ledger._decide,
    Reward: Ledger._reward,
    Void: Ledger._void,
    Correct: Ledger._correct,
    RollBack: Ledger._roll_back,
    AddArm: Ledger._add_arm,
    RetireArm: Ledger._retire_arm,
}


def _answer(identifier: str, body: Body) -> Answer:
    """What the one who asked for a decision is sent."""
    fields = {name: body.get(name) for name in ("arm", "index", "mean", "width", "propensity")}
    return {"id": identifier, **fields}


def _outcome(record: Record) -> Answer:
    return {"id": record.id, "state": record.state, "reward": record.reward}
