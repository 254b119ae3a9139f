"""One page of the log: what a batch of requests writes, and how each is answered.

Requests are taken in order, each seeing what those before it on the page have done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kinbandits.errors import InvalidInputError, KinbanditsError
from kinbandits.policy import KMTLUCB
from kinbandits.service.chooser import learned_row
from kinbandits.service.config import ServiceSettings
from kinbandits.service.events import Draft, Record
from kinbandits.service.learner import Serving, change_arms
from kinbandits.service.problems import Problem, unknown_decision
from kinbandits.service.requests import (
    AddArm,
    AddToken,
    Correct,
    Decide,
    Outcome,
    Request,
    RetireArm,
    RevokeToken,
    Reward,
    RollBack,
    Void,
)
from kinbandits.service.rules import LARGEST, check_arms, check_reward
from kinbandits.service.store import Token, Transaction

Chosen = tuple[str, dict[str, Any]] | Problem


class Page:
    """The drafts of one transaction."""

    def __init__(self, tx: Transaction, now: float, settings: ServiceSettings, serving: Serving) -> None:
        self.tx, self.now, self.settings = tx, now, settings
        self.policy, self._seq = serving.policy, serving.seq
        self.drafts: list[Draft] = []
        self.changed_arms: set[Request] = set()  # requests that have
        self._records: dict[str, Record] = {}
        self._ids: dict[str, str] = {}  # by key
        self._trial: KMTLUCB | None = None  # with all arms there are, and no rows

    def fill(self, requests: Sequence[Request], chosen: Mapping[Decide, Chosen]) -> list[Outcome]:
        """Write down all requests; the outcome of each."""
        named = (r for r in requests if isinstance(r, Reward | Void | Correct))
        self._records = self.tx.find(r.id for r in named if r.id is not None)
        keyed = (r for r in requests if isinstance(r, Decide | Reward))
        for key, record in self.tx.find_keys(r.key for r in keyed if r.key is not None).items():
            self._ids[key] = record.id
            self._records[record.id] = record
        outcomes: list[Outcome] = []
        for request in requests:
            try:
                outcomes.append(self._one(request, chosen))
            except Problem as problem:
                outcomes.append(problem)
        return outcomes

    def _one(self, request: Request, chosen: Mapping[Decide, Chosen]) -> dict[str, Any]:
        match request:
            case Decide():
                return self._decide(request, chosen.get(request))
            case Reward():
                return self._reward(request)
            case Void():
                return self._void(request)
            case Correct():
                return self._correct(request)
            case RollBack():
                return self._roll_back(request)
            case AddArm():
                return self._add_arm(request)
            case RetireArm():
                return self._retire_arm(request)
            case AddToken():
                return self._add_token(request)
            case RevokeToken():
                return self._revoke_token(request)
        raise Problem(500, "internal", "unknown request")

    def _add(self, kind: str, body: dict[str, Any], decision: str | None = None) -> None:
        self.drafts.append(Draft(kind, self.now, body, decision))

    # -- decisions ------------------------------------------------------------------------------

    def _decide(self, request: Decide, chosen: Chosen | None) -> dict[str, Any]:
        print_ = None if request.key is None else request.fingerprint()
        if request.key is not None and request.key in self._ids:
            earlier = self._records[self._ids[request.key]]
            if earlier.request != print_:
                raise Problem(409, "key_reused", "this idempotency key was used for another request")
            return answer(earlier.id, earlier.body)
        if chosen is None:
            raise Problem(409, "key_reused", "this idempotency key was used for a request that was refused")
        if isinstance(chosen, Problem):
            raise chosen
        identifier, body = chosen
        self.drafts.append(Draft("decision", self.now, body, identifier, request.key, print_))
        if request.key is not None:  # only by its key can it be meant on this page
            self._ids[request.key] = identifier
            self._records[identifier] = Record(identifier, 0, self.now, body, "open", None, request.key, print_)
        return answer(identifier, body)

    def _reward(self, request: Reward) -> dict[str, Any]:
        identifier = request.id if request.id is not None else self._ids.get(request.key or "")
        record = self._records.get(identifier or "")
        if record is None:
            self.tx.count("dangling")
            raise unknown_decision()
        if record.state in ("rewarded", "late"):
            if record.reward != request.value:
                self.tx.count("conflicting")
                raise Problem(409, "reward_conflict", "this decision already has another reward")
            self.tx.count("duplicate")
            return {"id": record.id, "state": record.state, "reward": request.value}
        if record.state in ("void", "withdrawn"):
            raise Problem(409, record.state, f"this decision is {record.state}; it takes no reward")
        self._check_reward(request.value)
        delay = self.now - record.at
        wait = self.settings.reward_wait
        if record.state == "open" and wait and delay > wait:
            row = learned_row(record.body)
            self._add("default", {"reward": self.settings.default_reward, **row}, record.id)
            record = replace(record, state="defaulted")
        if record.state == "defaulted":
            self._add("late", {"reward": request.value, "delay": delay}, record.id)
            state = "late"
        else:
            body = {"reward": request.value, **learned_row(record.body)}
            self._add("reward", {**body, "delay": delay}, record.id)
            state = "rewarded"
        self._records[record.id] = replace(record, state=state, reward=request.value)
        return {"id": record.id, "state": state, "reward": request.value}

    def _void(self, request: Void) -> dict[str, Any]:
        record = self._records.get(request.id)
        if record is None:
            raise unknown_decision()
        if record.state not in ("open", "void"):
            raise Problem(409, "not_open", f"this decision is {record.state} and can no longer be void")
        if record.state == "open":
            self._add("void", {"reason": request.reason}, record.id)
            self._records[record.id] = replace(record, state="void")
        return {"id": record.id, "state": "void", "reward": None}

    def _check_reward(self, value: float) -> None:
        limits = self.policy.reward_range
        try:
            check_reward(value, limits)
        except InvalidInputError:
            low, high = limits or (-LARGEST, LARGEST)
            detail = f"a reward of this service is between {low:g} and {high:g}"
            raise Problem(409, "reward_range", detail) from None

    # -- what was learned, otherwise ------------------------------------------------------------

    def _correct(self, request: Correct) -> dict[str, Any]:
        record = self._records.get(request.id)
        if record is None:
            raise unknown_decision()
        if record.state in ("open", "void"):
            raise Problem(409, "not_rewarded", f"this decision is {record.state}; there is no reward to correct")
        if request.value is not None:
            self._check_reward(request.value)
        state = "withdrawn" if request.value is None else "rewarded"
        if (record.state, record.reward) != (state, request.value):
            was = record.reward if record.state == "rewarded" else self._default_of(record)
            body = {"reward": request.value, "was": was, "state": record.state, "since": record.seq}
            self._add("corrected", {**body, "arm": record.body["arm"], "by": request.by}, record.id)
            self._records[record.id] = replace(record, state=state, reward=request.value)
        return {"id": record.id, "state": state, "reward": request.value}

    def _default_of(self, record: Record) -> float | None:
        """What was learned of a decision that was defaulted; None of one that is withdrawn."""
        if record.state == "withdrawn":
            return None
        here = [d.body["reward"] for d in self.drafts if d.kind == "default" and d.decision == record.id]
        return here[0] if here else self.tx.default_of(record.id)

    def _roll_back(self, request: RollBack) -> dict[str, Any]:
        if not 0 <= request.to < self.tx.last_seq:
            raise Problem(409, "no_such_event", f"the log has {self.tx.last_seq} events; name an earlier one")
        self._add("rolled_back", {"to": request.to, "by": request.by})
        return {"to": request.to}

    # -- arms and tokens ------------------------------------------------------------------------

    def _arms(self) -> KMTLUCB:
        """The arms there are, in a policy without rows: those served, and what was changed since."""
        if self._trial is None:
            self._trial = type(self.policy)(**self.policy.get_params())
            for arm in self.policy.retired:
                self._trial.retire_arm(arm)
            for event in self.tx.arm_events(self._seq):
                change_arms(self._trial, event.kind, event.body)
        return self._trial

    def _add_arm(self, request: AddArm) -> dict[str, Any]:
        arms = self._arms()
        if request.arm in arms.arms:
            raise Problem(409, "arm_exists", "there is an arm of this name (it may be retired); choose another")
        try:
            check_arms([*arms.arms, request.arm])
        except InvalidInputError:
            raise Problem(409, "arm_exists", "there is an arm that looks the same in a path") from None
        details = {
            "descriptor": request.descriptor,
            "similarity": request.similarity,
            "neighbours": request.neighbours,
        }
        body = {"arm": request.arm, "by": request.by, **details}
        try:  # does the similarity take such an arm?
            change_arms(arms, "arm_added", body)
        except KinbanditsError:
            raise Problem(
                409,
                "arm_refused",
                "the similarity of this policy cannot take this arm: give the descriptor, similarity or neighbours "
                "it needs, of the right length",
            ) from None
        self._add("arm_added", body)
        self.changed_arms.add(request)
        return {"arm": request.arm, "retired": False}

    def _retire_arm(self, request: RetireArm) -> dict[str, Any]:
        arms = self._arms()
        if request.arm not in arms.arms:
            raise Problem(404, "unknown_arm", "there is no arm of this name")
        if request.arm not in arms.retired:
            if len(arms.active_arms) == 1:
                raise Problem(409, "last_arm", "this is the last active arm; add another before retiring it")
            arms.retire_arm(request.arm)
            self._add("arm_retired", {"arm": request.arm, "by": request.by})
            self.changed_arms.add(request)
        return {"arm": request.arm, "retired": True}

    def _add_token(self, request: AddToken) -> dict[str, Any]:
        if any(t.name == request.name for t in self.tx.tokens()):
            raise Problem(409, "token_exists", "there is a token of this name (it may be revoked); choose another")
        self.tx.add_token(Token(request.name, request.hash, request.roles, self.now, None))
        self._add("token_added", {"token": request.name, "roles": list(request.roles), "by": request.by})
        return {"name": request.name, "roles": list(request.roles)}

    def _revoke_token(self, request: RevokeToken) -> dict[str, Any]:
        if not self.tx.revoke_token(request.name, self.now):
            raise Problem(404, "unknown_token", "there is no valid token of this name")
        self._add("token_revoked", {"token": request.name, "by": request.by})
        return {"name": request.name, "revoked": True}


def answer(identifier: str, body: dict[str, Any]) -> dict[str, Any]:
    """What the one who asked for a decision is told."""
    return {
        "id": identifier,
        "arm": body["arm"],
        "index": body["index"],
        "mean": body["mean"],
        "width": body["width"],
        "score": body["score"],
        "propensity": body["propensity"],
    }
