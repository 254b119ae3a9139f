"""What is sent and answered, as models: FastAPI makes validation and the OpenAPI document of them.

What the client has a class for (`Choice`, `Outcome`, `Arm`) is answered as that. Strict: no NaN, no infinities, no
numbers in strings, no unknown fields. Problems never repeat what was sent.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from kinbandits.errors import KinbanditsError
from kinbandits.service.config import ARM, LARGEST, LARGEST_ARM, MOST_FEATURES

ID = r"^[0-9a-f]{12}$"
MOST_AT_ONCE = 1000  # decisions or rewards of one request


def _whole(value: object) -> object:
    """3.0 is an integer to JSON Schema, so it is one here."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Vector = Annotated[list[Number], Field(min_length=1, max_length=MOST_FEATURES)]
Arm = (
    Annotated[str, Field(pattern=ARM)] | Annotated[int, Field(ge=-LARGEST_ARM, le=LARGEST_ARM), BeforeValidator(_whole)]
)
Contexts = Annotated[list[Vector], Field(min_length=1, max_length=10_000)]
Arms = Annotated[list[Arm], Field(max_length=10_000)]
Named = Annotated[dict[str, Number | Annotated[str, Field(max_length=200)]], Field(min_length=1, max_length=1000)]
Key = Annotated[str, Field(pattern=r"^[!-~]{1,200}$")]
State = Literal["open", "rewarded", "defaulted", "late", "void", "withdrawn"]


class Strict(BaseModel):
    """Takes what it names, as it is."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class DecisionBody(Strict):
    """Choose an arm for a context: ``context`` is one for all candidates, or a list of one for each."""

    context: Vector | Contexts | Named | Annotated[list[Named], Field(min_length=1, max_length=10_000)] = Field(
        description="A list of numbers, or an object where the service has named features.", examples=[[0.3, 0.8]]
    )
    arms: Annotated[Arms, Field(min_length=1)] | None = Field(
        None, description="Candidates; left out, all active arms."
    )
    task: Arm | None = Field(None, description="In place of arms: the one arm that all rows of context are for.")
    key: Key | None = Field(None, description="The same key and request give the same decision, until it is archived.")


class DecisionsBody(Strict):
    """Several decisions at once; each is answered for itself."""

    decisions: Annotated[list[DecisionBody], Field(min_length=1, max_length=MOST_AT_ONCE)]


class RewardBody(Strict):
    """The reward of a decision."""

    reward: Number = Field(examples=[1.0])


class RewardById(RewardBody):
    """A reward, for the decision of this id."""

    id: Annotated[str, Field(pattern=ID)]


class RewardByKey(RewardBody):
    """A reward, for the decision that was asked for with this key."""

    key: Key


class RewardsBody(Strict):
    """Several rewards at once; each is answered for itself."""

    rewards: Annotated[list[RewardById | RewardByKey], Field(min_length=1, max_length=MOST_AT_ONCE)]


class CorrectionBody(Strict):
    """The reward that should have been learned; null withdraws it."""

    reward: Number | None = Field(examples=[0.5])


class RollBackBody(Strict):
    """Forget what was learned after this event."""

    to: Annotated[int, Field(ge=0, le=2**53), BeforeValidator(_whole)] = Field(description="The number of an event.")


class ArmBody(Strict):
    """A new arm, with what the policy's similarity needs to know of it; or one that returns."""

    arm: Arm = Field(examples=["music"])
    descriptor: Vector | None = Field(default=None, description="For a similarity known by descriptors.")
    similarity: Vector | None = Field(default=None, description="For a similarity matrix: to each arm, in order.")
    neighbours: Arms | None = Field(default=None, description="For a graph: the arms it is linked to.")


class OneAnswer(BaseModel):
    """One of several: its status, and the result or why there is none."""

    status: int
    result: dict[str, Any] | None = None
    code: str | None = None
    detail: str | None = None


class Answers(BaseModel):
    """In the order of what was asked."""

    answers: list[OneAnswer]


class DecisionRecord(BaseModel):
    """A decision as it stands in the log."""

    id: str
    state: State
    reward: float | None
    at: float = Field(description="When it was made, in seconds since 1970.")
    seq: int = Field(description="The number of its event.")
    learned: float | None = Field(description="The reward that is learned of it.")
    context: list[Any]
    candidates: list[Arm]
    arm: Arm
    index: int
    propensity: float
    mean: float | None = None
    width: float | None = None


class DecisionQuery(BaseModel):
    """Which decisions are listed."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    state: State | None = Field(None, description="Only those in this state.")
    arm: str | None = Field(None, max_length=200, description="Only those of this arm.")
    since: float | None = Field(None, description="Made at or after, seconds since 1970.")
    until: float | None = Field(None, description="Made before, seconds since 1970.")
    before: str | None = Field(None, pattern=ID, description="As ``next`` of an earlier answer.")
    limit: int = Field(50, ge=1, le=500)


class DecisionList(BaseModel):
    """Decisions, newest first."""

    decisions: list[DecisionRecord]
    next: str | None = Field(description="Send this as ``before`` for those that come next; null at the end.")


class ArmState(BaseModel):
    """An arm after a change."""

    arm: Arm
    retired: bool


class ProblemAnswer(BaseModel):
    """Why there is no result."""

    code: str
    detail: str
    errors: list[dict[str, Any]] | None = None


class Problem(KinbanditsError, RuntimeError):  # noqa: N818 (as in RFC 9457)
    """An answer that is not a result: a status, a code for programs, a sentence for people."""

    def __init__(self, status: int, code: str, detail: str, errors: list[dict[str, Any]] | None = None) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.errors = status, code, detail, errors


def unknown_decision() -> Problem:
    """A request about a decision that this log does not know."""
    return Problem(404, "unknown_decision", "there is no decision of this id or key")


def unavailable(detail: str = "the log cannot be written now; try again, with the same key") -> Problem:
    """Nothing is wrong with the request."""
    return Problem(503, "unavailable", detail)
