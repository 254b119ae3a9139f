"""Settings of a service: a TOML file with a [policy] and a [service] table, and [shadow.NAME] for each shadow.

[policy]
arms = ["sport", "science", "music"]
similarity = { type = "Estimated", length_scale = 0.3 }
epsilon = 0.05

[service]
reward_wait = 600.0
default_reward = 0.0
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kinbandits._value import from_json as from_spec
from kinbandits._value import suggest as meant
from kinbandits.errors import InvalidInputError, KinbanditsError
from kinbandits.policy import KMTLUCB, load
from kinbandits.policies.defaults import defaults_as_data
from kinbandits.service.features import Feature
from kinbandits.service.rules import LARGEST, MOST_FEATURES, check_arms

EPSILON = 0.05  # the service's default floor: every candidate is played, so that the log can be evaluated
# The service's default engine: exact models cost rows squared a decision, and rows cubed where similarities change.
ENGINE = {"type": "Budgeted", "points": 1000, "after": 2000}


class ServiceSettings(BaseModel):
    """The [service] table.

    Attributes:
        reward_wait: seconds after which a decision without a reward is defaulted; 0 waits for ever.
        default_reward: what is then learned; nothing if left out.
        features: how many numbers a context has, or a list of named features (see `features`); left out, the first
            decision settles how many.
        snapshot_every: rows learned between two snapshots (or more, where they are large).
        max_candidates: most candidates of one decision.
        max_body: largest request body, in bytes.
        rate: requests per second of one token, on average; 0 is no limit.
        burst: how many may come at once.
        start: a policy that `kinbandits fit` saved with the same [policy]; the log is learned on top of it.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    reward_wait: float = Field(default=600.0, ge=0.0, le=1e9)
    default_reward: float | None = Field(default=None, ge=-LARGEST, le=LARGEST)
    features: Annotated[int, Field(ge=1, le=MOST_FEATURES)] | tuple[Feature, ...] | None = None
    snapshot_every: int = Field(default=1000, ge=1)
    max_candidates: int = Field(default=1000, ge=1)
    max_body: int = Field(default=1_000_000, ge=1000)
    rate: float = Field(default=0.0, ge=0.0)
    burst: int = Field(default=200, ge=1)
    start: str | None = None

    @field_validator("features", mode="before")
    @classmethod
    def _short_names(cls, given: object) -> object:
        """A name alone is a number of that name."""
        if not isinstance(given, list | tuple):
            return given
        found = [Feature.model_validate({"name": f} if isinstance(f, str) else f) for f in given]
        if not found or len({f.name for f in found}) < len(found):
            raise ValueError("features must be named, each once")
        return tuple(found)

    @property
    def named_features(self) -> tuple[Feature, ...]:
        """The features by name; empty if they have none."""
        return self.features if isinstance(self.features, tuple) else ()

    @property
    def n_features(self) -> int | None:
        """How many numbers a context has, if it is known beforehand."""
        if isinstance(self.features, tuple):
            return sum(f.columns for f in self.features)
        return self.features


class Settings(BaseModel):
    """All settings: how to build the policy, and how to serve it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    policy: dict[str, Any] = Field(default_factory=lambda: {"arms": 10})
    service: ServiceSettings = ServiceSettings()
    shadow: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")], dict[str, Any]] = {}

    def build(self) -> KMTLUCB:
        """The policy to begin with: a new one, unless there is a ``start``."""
        policy = self.untaught()
        return policy if self.service.start is None else _started(self.service.start, policy)

    def untaught(self) -> KMTLUCB:
        """A new policy. Where nothing is said of epsilon and engine, they are the service's own."""
        policy = build_policy(self._with_defaults)
        check_arms(policy.arms)
        return policy

    def for_shadow(self, name: str) -> Settings:
        """Those of a shadow: it has the arms of the served policy, and else what its own table says; no start."""
        service = self.service.model_copy(update={"start": None})
        return Settings(policy={"arms": self.policy["arms"], **self.shadow[name]}, service=service)

    @property
    def _with_defaults(self) -> dict[str, Any]:
        return {"epsilon": EPSILON, "engine": ENGINE, **self.policy}

    def fingerprint(self) -> str:
        """A digest of what the model depends on, defaults too; a snapshot of other settings is not used."""
        built_with: list[Any] = [self._with_defaults, defaults_as_data(), self.service.n_features]
        if self.service.start is not None:
            built_with.append(hashlib.sha256(Path(self.service.start).read_bytes()).hexdigest())
        text = json.dumps(built_with, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def _started(path: str, wanted: KMTLUCB) -> KMTLUCB:
    """The policy of a file, if it was fitted with the settings of ``wanted``."""
    policy: KMTLUCB = load(path)
    found = policy.get_params() if isinstance(policy, KMTLUCB) else {}
    for name, value in wanted.get_params().items():
        if found.get(name) != value:
            raise InvalidInputError(
                f"{path} was fitted with {name} = {found.get(name)!r}, but [policy] says {value!r}; fit it again "
                "with these settings"
            )
    return policy


def build_policy(table: dict[str, Any]) -> KMTLUCB:
    """A policy from plain data, where a value is a table with its type: ``{type = "RBF", length_scale = 1.0}``.

    >>> build_policy({"arms": 3, "similarity": {"type": "Pooled"}, "ridge": 0.5}).similarity
    Pooled()
    """
    try:
        params = {name: value if name == "arms" else from_spec(value, where=name) for name, value in table.items()}
        return KMTLUCB(**params)
    except KinbanditsError as error:
        raise InvalidInputError(f"[policy]: {error}") from error
    except TypeError as error:
        raise InvalidInputError(f"[policy] cannot be used: {error}") from error


def load_settings(path: str | Path, start: str | Path | None = None) -> Settings:
    """Settings from a TOML file; ``start`` in place of that of its [service] table."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} is not valid TOML: {error}") from error
    if start is not None:
        data["service"] = {**data.get("service", {}), "start": str(start)}
    if not data.keys() <= Settings.model_fields.keys():
        raise InvalidInputError(f"{path} {_not_settings(data)}")
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        raise InvalidInputError(f"{path}: {_first_error(error)}") from error
    settings.build()
    for name in settings.shadow:
        try:
            settings.for_shadow(name).build()
        except KinbanditsError as error:
            raise InvalidInputError(f"[shadow.{name}]: {error}") from error
    return settings


def _not_settings(data: dict[str, Any]) -> str:
    """What is wrong with a file that has other tables than settings have."""
    if {"environments", "methods"} & data.keys():
        return (
            "is an experiment (it has environments or methods): `kinbandits run` plays it. A service's file has a "
            "[policy] table with arms, and a [service] table"
        )
    names = ", ".join(sorted(data.keys() - Settings.model_fields.keys()))
    return f"has {names}, but a service's file has only the tables [policy], [service] and [shadow.NAME]"


def _first_error(error: ValidationError) -> str:
    """The first thing pydantic found, in our words."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        known = ServiceSettings.model_fields
        return f"there is no setting {where}; there are {', '.join(known)}{meant(first['loc'][-1], known)}"
    return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}, got {first['input']!r}"
