"""What the engine can be asked to do."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pydantic_core import to_json

from kinbandits.service.events import ArmName


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
