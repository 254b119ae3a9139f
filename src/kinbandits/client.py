"""A client of the decision service (needs httpx, which the extra ``serve`` brings).

    with Client("http://127.0.0.1:8321", token) as client:
        choice = client.decide([0.3, 0.8])
        ...                                     # play choice.arm, see what comes of it
        client.reward(choice, 1.0)

A decision carries an idempotency key, and a reward of the same value counts once. So the client retries by itself
when the service is away or busy, and nothing is counted twice.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlencode

from kinbandits.errors import InvalidInputError, KinbanditsError

if TYPE_CHECKING:
    import httpx

__all__ = ["Arm", "Choice", "Client", "Outcome", "ServiceError"]

ArmName = str | int
Context = Sequence[float] | Mapping[str, float | str]


class ServiceError(KinbanditsError, RuntimeError):
    """The service refused, or could not be reached.

    ``status`` is that of the HTTP answer (0 if there was none), ``code`` is for programs: ``"reward_conflict"``.
    """

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{detail} ({status} {code})" if status else detail)
        self.status, self.code = status, code


@dataclass(frozen=True)
class Choice:
    """A decision: play ``arm``, then `Client.reward` it."""

    id: str
    arm: ArmName
    index: int
    mean: float | None
    width: float | None
    propensity: float


@dataclass(frozen=True)
class Outcome:
    """What became of a decision: open, rewarded, defaulted, late, void or withdrawn."""

    id: str
    state: str
    reward: float | None


@dataclass(frozen=True)
class Arm:
    """An arm and its record."""

    arm: ArmName
    retired: bool
    pulls: int
    rewards: int
    mean_reward: float | None
    standard_error: float | None
    last_pull: float | None


class Client:
    """Talks to a decision service. One client is for one thread at a time.

    Args:
        url: of the service.
        token: with the roles for what is called.
        timeout: seconds for one attempt.
        patience: seconds in all to try again while the service is away (503, 429, no connection).
    """

    def __init__(self, url: str, token: str, *, timeout: float = 15.0, patience: float = 30.0) -> None:
        import httpx

        if not url.startswith(("http://", "https://")):
            raise InvalidInputError(f"url must start with http:// or https://, got {url!r}")
        self._patience = patience
        self._errors: tuple[type[Exception], ...] = (httpx.TransportError,)
        self._http: httpx.Client = httpx.Client(
            base_url=url.rstrip("/"), headers={"Authorization": f"Bearer {token}"}, timeout=timeout, trust_env=False
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # -- the main path --------------------------------------------------------------------------

    def decide(
        self,
        context: Context | Sequence[Sequence[float]],
        arms: Sequence[ArmName] | None = None,
        key: str | None = None,
        *,
        task: ArmName | None = None,
    ) -> Choice:
        """Choose an arm for a context (one for all candidates, or one row for each), or for named features.

        With ``task``, an arm, each row of the context is a candidate for it, and ``choice.index`` is the chosen one.
        """
        body: dict[str, Any] = {"context": _plain(context), "key": key or secrets.token_hex(16)}
        body |= {} if arms is None else {"arms": list(arms)}
        body |= {} if task is None else {"task": task}
        return Choice(**self._call("POST", "/v1/decisions", body))

    def reward(self, decision: Choice | str, reward: float) -> Outcome:
        """Deliver the reward of a decision; the same value again changes nothing."""
        return Outcome(**self._call("PUT", f"/v1/decisions/{_id(decision)}/reward", {"reward": float(reward)}))

    def reward_by_key(self, key: str, reward: float) -> Outcome:
        """Deliver the reward of the decision that was asked for with this key."""
        found = self._parts("/v1/rewards", {"rewards": [{"key": key, "reward": float(reward)}]}, Outcome)[0]
        if not isinstance(found, Outcome):
            raise found
        return found

    def decide_many(
        self, contexts: Sequence[Context], keys: Sequence[str] | None = None
    ) -> list[Choice | ServiceError]:
        """Choose for each of several contexts, up to 1,000. One that is refused is an error in its place."""
        plain = [_plain(c) for c in contexts]
        keys = keys or [secrets.token_hex(16) for _ in plain]
        asked = [{"context": c, "key": k} for c, k in zip(plain, keys, strict=True)]
        return self._parts("/v1/batch/decisions", {"decisions": asked}, Choice)

    def reward_many(self, rewards: Mapping[str, float]) -> list[Outcome | ServiceError]:
        """Deliver the rewards of several decisions, by id; up to 1,000."""
        sent = [{"id": id, "reward": float(value)} for id, value in rewards.items()]
        return self._parts("/v1/rewards", {"rewards": sent}, Outcome)

    def correct(self, decision: Choice | str, reward: float | None) -> Outcome:
        """Learn another reward than was delivered, or none (None)."""
        return Outcome(**self._call("PUT", f"/v1/decisions/{_id(decision)}/correction", {"reward": reward}))

    def void(self, decision: Choice | str) -> Outcome:
        """The decision was not carried out."""
        return Outcome(**self._call("DELETE", f"/v1/decisions/{_id(decision)}"))

    # -- looking --------------------------------------------------------------------------------

    def decision(self, decision: Choice | str) -> dict[str, Any]:
        """A decision as it stands in the log."""
        return dict(self._call("GET", f"/v1/decisions/{_id(decision)}"))

    def decisions(self, limit: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
        """Decisions, newest first. Filters: ``state``, ``arm``, ``since``, ``until`` (seconds since 1970)."""
        before, left = None, limit
        while left is None or left > 0:
            asked = {**filters, "before": before, "limit": min(500, left or 500)}
            query = urlencode({name: value for name, value in asked.items() if value is not None})
            page = self._call("GET", f"/v1/decisions?{query}")
            yield from page["decisions"]
            before = page["next"]
            left = None if left is None else left - len(page["decisions"])
            if before is None:
                return

    def explain(self, decision: Choice | str) -> dict[str, Any]:
        """Which arms' rewards its estimate comes from, by what the model knows now."""
        return dict(self._call("GET", f"/v1/decisions/{_id(decision)}/explanation"))

    def policy(self) -> dict[str, Any]:
        """What is served and how far it has learned."""
        return dict(self._call("GET", "/v1/policy"))

    def similarity(self) -> tuple[list[ArmName], list[list[float]]]:
        """Arms, and how alike they are."""
        found = self._call("GET", "/v1/similarity")
        return found["arms"], found["matrix"]

    def arms(self) -> list[Arm]:
        """All arms with their records."""
        return [Arm(**a) for a in self._call("GET", "/v1/arms")]

    def ready(self) -> bool:
        """Whether the service takes requests now."""
        try:
            return bool(self._http.get("/readyz").status_code == 200)
        except self._errors:
            return False

    # -- administration -------------------------------------------------------------------------

    def add_arm(self, arm: ArmName, descriptor: Sequence[float] | None = None, **details: Sequence[Any]) -> None:
        """Add an arm, or have a retired one return; with ``similarity`` or ``neighbours`` if the policy needs them."""
        details |= {} if descriptor is None else {"descriptor": descriptor}
        self._call("POST", "/v1/arms", {"arm": arm, **{name: list(value) for name, value in details.items()}})

    def retire_arm(self, arm: ArmName) -> None:
        """Do not choose this arm any more; it may return."""
        self._call("DELETE", f"/v1/arms/{quote(str(arm), safe='')}")

    def roll_back(self, event: int) -> None:
        """Forget what was learned after an event; the log keeps it."""
        self._call("POST", "/v1/rollback", {"to": event})

    # -- the machinery --------------------------------------------------------------------------

    def _parts(self, path: str, body: dict[str, Any], kind: Callable[..., Any]) -> list[Any]:
        """The answers to several requests in one, in order."""
        answers = self._call("POST", path, body)["answers"]
        return [
            kind(**a["result"]) if a["status"] == 200 else ServiceError(a["status"], a["code"], a["detail"])
            for a in answers
        ]

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        give_up, pause = time.monotonic() + self._patience, 0.1
        while True:
            answer, wait = self._attempt(method, path, body)
            if not isinstance(answer, ServiceError):
                return answer
            wait = None if wait is None else max(wait, pause) * random.uniform(0.5, 1.5)  # not all clients at once
            if wait is None or time.monotonic() + wait > give_up:
                raise answer
            time.sleep(wait)
            pause = min(1.0, 2.0 * pause)

    def _attempt(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[Any, float | None]:
        """The answer, or an error and how long to wait at least before trying again (None: do not)."""
        try:
            response = self._http.request(method, path, json=body)
        except self._errors as error:
            return ServiceError(0, "unreachable", f"{self._http.base_url} cannot be reached: {error}"), 0.0
        try:
            data = response.json()
            if response.status_code == 200:
                return data, None
            code, detail = str(data["code"]), str(data["detail"])
        except (ValueError, KeyError, TypeError):
            code, detail = "unknown", "the answer is not one of a kinbandits service"
        refusal = ServiceError(response.status_code, code, detail)
        if response.status_code not in (429, 502, 503, 504):
            return refusal, None
        after = response.headers.get("retry-after", "")
        return refusal, float(after) if after.isdecimal() else 0.0


def _id(decision: Choice | str) -> str:
    return decision.id if isinstance(decision, Choice) else decision


def _plain(context: Any) -> Any:
    """A context as JSON takes it."""
    context = context.tolist() if hasattr(context, "tolist") else context
    if isinstance(context, Mapping):
        return dict(context)
    return [_plain(r) if isinstance(r, Sequence | Mapping) and not isinstance(r, str) else float(r) for r in context]
