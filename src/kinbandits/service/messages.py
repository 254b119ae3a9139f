"""What is sent and answered, as models: the source of validation and of the OpenAPI document.

Strict: no NaN, no infinities, no numbers in strings, no unknown fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from kinbandits.service.features import Feature, encode
from kinbandits.service.problems import Problem
from kinbandits.service.rules import ARM, LARGEST, LARGEST_ARM, MOST_FEATURES

Model = TypeVar("Model", bound=BaseModel)
ID = r"^[0-9a-f]{1,2}-[0-9a-f]{12}$"
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Row = Annotated[list[Number], Field(min_length=1, max_length=MOST_FEATURES)]
Name = Annotated[str, Field(pattern=ARM)]


def _whole(value: object) -> object:
    """3.0 is an integer to JSON Schema, so it is one here."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


ArmName = Name | Annotated[int, Field(ge=-LARGEST_ARM, le=LARGEST_ARM), BeforeValidator(_whole)]
Named = Annotated[dict[str, Number | Annotated[str, Field(max_length=200)]], Field(min_length=1, max_length=1000)]
Key = Annotated[str, Field(pattern=r"^[!-~]{1,200}$")]
State = Literal["open", "rewarded", "defaulted", "late", "void", "withdrawn"]
Role = Literal["decide", "reward", "read", "admin"]


class Strict(BaseModel):
    """Takes what it names, as it is."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class DecisionRequest(Strict):
    """Choose an arm for a context."""

    context: (
        Row
        | Annotated[list[Row], Field(min_length=1, max_length=10_000)]
        | Named
        | Annotated[list[Named], Field(min_length=1, max_length=10_000)]
    ) = Field(
        description="What describes the situation: one list of numbers for all candidates, or one list for each; "
        "or an object, or one for each, where the service has named features.",
        examples=[[0.3, 0.8]],
    )
    arms: Annotated[list[ArmName], Field(min_length=1, max_length=10_000)] | None = Field(
        default=None, description="The candidates; all active arms if left out."
    )
    task: ArmName | None = Field(
        default=None,
        description="The arm that is given, where context has one list or object for each candidate: the answer's "
        "index says which of them was chosen. In place of arms.",
    )
    key: Key | None = Field(
        default=None, description="Idempotency key: the same key and request give the same decision again."
    )

    def asked(self, features: Sequence[Feature]) -> tuple[list[float] | list[list[float]], list[ArmName] | None]:
        """The context as numbers, and the candidates."""
        context: Any = self.context
        if isinstance(context, dict):
            context = encode(features, context)
        elif isinstance(context[0], dict):
            context = [encode(features, given) for given in context]
        if self.task is None:
            return context, self.arms
        if self.arms is not None or not isinstance(context[0], list):
            raise Problem(409, "task", "with task, context has a row for each candidate, and arms is left out")
        return context, [self.task] * len(context)


class BatchRequest(Strict):
    """Several decisions at once; each is answered for itself."""

    decisions: Annotated[list[DecisionRequest], Field(min_length=1, max_length=1000)]


class RewardById(Strict):
    """A reward, for a decision that is named by its id."""

    id: Annotated[str, Field(pattern=ID)]
    reward: Number


class RewardByKey(Strict):
    """A reward, for a decision that is named by the key it was asked for with."""

    key: Key
    reward: Number


class RewardsRequest(Strict):
    """Several rewards at once; each is answered for itself."""

    rewards: Annotated[list[RewardById | RewardByKey], Field(min_length=1, max_length=1000)]


class CorrectionRequest(Strict):
    """The reward that should have been learned; null withdraws it."""

    reward: Number | None = Field(examples=[0.5])


class RollBackRequest(Strict):
    """Forget what was learned after this event."""

    to: Annotated[int, Field(ge=0, le=2**53), BeforeValidator(_whole)] = Field(
        description="The number of an event; GET /v1/snapshots lists those that are quickest to go back to."
    )


class RewardRequest(Strict):
    """The reward of a decision."""

    reward: Number = Field(examples=[1.0])


class ArmRequest(Strict):
    """A new arm, with what the policy's similarity needs to know of it."""

    arm: ArmName = Field(examples=["music"])
    descriptor: Row | None = Field(default=None, description="For a similarity known by descriptors.")
    similarity: Row | None = Field(default=None, description="For a similarity matrix: to each arm, in order.")
    neighbours: Annotated[list[ArmName], Field(max_length=10_000)] | None = Field(
        default=None, description="For a graph: the arms it is linked to."
    )


class TokenRequest(Strict):
    """A new token."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    roles: Annotated[list[Role], Field(min_length=1, max_length=4)]


class Decision(BaseModel):
    """A decision: play ``arm``, then send its reward to ``PUT /v1/decisions/{id}/reward``."""

    id: str
    arm: ArmName
    index: int = Field(description="Which candidate, counted from 0.")
    mean: float = Field(description="Estimated reward.")
    width: float = Field(description="How uncertain the estimate is.")
    score: float = Field(description="mean + exploration * width.")
    propensity: float = Field(description="The probability with which this candidate was chosen.")


class Outcome(BaseModel):
    """What became of a decision."""

    id: str
    state: State
    reward: float | None


class OneAnswer(BaseModel):
    """The answer to one of several: its status, and the result or why there is none."""

    status: int
    result: dict[str, Any] | None = None
    code: str | None = None
    detail: str | None = None


class BatchAnswer(BaseModel):
    """The answers, in the order of what was asked."""

    answers: list[OneAnswer]


class SnapshotState(BaseModel):
    """A snapshot of the model that is kept."""

    event: int = Field(description="It knows the log up to this event.")
    current: bool = Field(description="Whether it holds what is learned now.")


class RollBackAnswer(BaseModel):
    """What was learned after this event, until now, is not learned."""

    to: int


class DecisionRecord(Outcome):
    """A decision as it stands in the log."""

    at: float = Field(description="When it was made, in seconds since 1970.")
    context: list[Any]
    candidates: list[ArmName]
    arm: ArmName
    index: int
    propensity: float
    mean: float | None = None
    width: float | None = None
    score: float | None = None


class DecisionList(BaseModel):
    """Decisions, newest first."""

    decisions: list[DecisionRecord]
    next: int | None = Field(description="Give this as ``before`` for those that come next; null at the end.")


class Loan(BaseModel):
    """How much of a mean came from an arm's data."""

    arm: ArmName
    amount: float


class ExplanationAnswer(BaseModel):
    """Who lent what, by what the model knows now."""

    arm: ArmName
    mean: float
    lent: list[Loan]
    width: float
    width_alone: float
    width_prior: float
    n_own: int
    n_all: int


class Arm(BaseModel):
    """An arm and its record."""

    arm: ArmName
    retired: bool
    pulls: int = 0
    rewards: int = 0
    mean_reward: float | None = None
    standard_error: float | None = None
    last_pull: float | None = None


class ArmState(BaseModel):
    """An arm after a change."""

    arm: ArmName
    retired: bool


class TokenAnswer(BaseModel):
    """A new token; its secret is shown this once."""

    name: str
    roles: list[Role]
    token: str


class TokenState(BaseModel):
    """A token, without its secret."""

    name: str
    roles: list[Role]
    created: float
    revoked: float | None


class PolicyAnswer(BaseModel):
    """What is served and how far it has learned."""

    policy: str
    arms: list[ArmName]
    retired: list[ArmName]
    epsilon: float
    features: int | None
    observations: int
    events: int = Field(description="Events in the log.")
    model: int = Field(description="The last event that the serving model has taken in.")
    states: dict[str, int]
    counters: dict[str, int] = Field(description="Rewards that were duplicate, conflicting or dangling.")
    settings: dict[str, Any]


class SimilarityAnswer(BaseModel):
    """How alike the arms are, as the model sees them now."""

    arms: list[ArmName]
    matrix: list[list[float]]


class Value(BaseModel):
    """A mean reward with its 95 % interval."""

    value: float
    low: float
    high: float


class ShadowState(BaseModel):
    """A policy that decides without acting, beside what was served in the same rounds."""

    name: str
    policy: str
    observations: int
    behind: int = Field(description="Events of the log that it has not seen yet.")
    rounds: int = Field(description="Decisions that its value is told from: the last ones whose outcome is known.")
    value: Value | None = Field(description="What it would have earned a round (dr).")
    served: Value | None = Field(description="What was earned in the same rounds.")
    agreement: float | None = Field(description="How often it would have played the arm that was played.")
    effective_rounds: float | None = Field(description="How many rounds of its own would say as much.")
    warnings: list[str]


class Health(BaseModel):
    """Alive, or ready."""

    status: Literal["ok", "starting", "unavailable"]


class ProblemAnswer(BaseModel):
    """Why there is no result. Nothing that was sent is repeated."""

    code: str
    detail: str
    errors: list[dict[str, Any]] | None = None


def parse(model: type[Model], kind: str, content: bytes | bytearray) -> Model:
    """A body as a model. Errors name places and rules, and repeat nothing that was sent."""
    if kind != "application/json" and kind.partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, "not_json", "send JSON, with Content-Type: application/json")
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        if found[0]["type"] == "json_invalid":
            raise Problem(400, "not_json", "the body is not valid JSON") from None
        known = set(model.model_fields)
        errors = [
            {"where": [x for x in e["loc"] if isinstance(x, int) or x in known], "rule": e["type"]}
            for e in found[:10]
        ]
        problem = Problem(
            422, "invalid", "the body does not fit the schema; see errors and /openapi.json", errors=errors
        )
        raise problem from None
