"""Settings of a service: a TOML file with a [policy] and a [service] table.

[policy]
arms = ["sport", "science", "music"]
similarity = { type = "Estimated", length_scale = 0.3 }

[service]
reward_wait = 600.0
default_reward = 0.0
features = ["hour", { name = "age", low = 0, high = 120 }, { name = "device", values = ["phone", "desktop"] }]

A number is one column of a context, scaled to 0 to 1 where it has a low and a high; a feature with values becomes a
column for each.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

import kinbandits as kb
from kinbandits._value import read_value
from kinbandits.errors import InvalidInputError, KinbanditsError
from kinbandits.service.events import ArmName

LARGEST = 1e12  # of a context entry or a reward, in magnitude
LARGEST_ARM = 2**53  # of an arm that is a number
MOST_FEATURES = 100_000
ARM = r"^[^\x00-\x1f\x7f/]{1,200}$"  # a name stands in a path
# Where [policy] says nothing: every candidate is played now and then, so that the log can be evaluated; and the
# cost of a decision has a limit.
DEFAULTS: dict[str, Any] = {"epsilon": 0.05, "engine": {"type": "Budgeted", "points": 1000, "after": 2000}}


class Feature(BaseModel):
    """One named feature: a number, or one of several values."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]
    low: float | None = Field(default=None, ge=-LARGEST, le=LARGEST)
    high: float | None = Field(default=None, ge=-LARGEST, le=LARGEST)
    values: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] | None = Field(
        default=None, min_length=2, max_length=1000
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        low, high, values = self.low, self.high, self.values or ()
        if values and not low is high is None:
            raise ValueError(f"feature {self.name} has values, so it takes no low and high")
        if (low is None) != (high is None):
            raise ValueError(f"feature {self.name} needs both low and high, or neither")
        if low is not None and high is not None and low >= high:
            raise ValueError(f"feature {self.name}: low must be less than high")
        if len(set(values)) < len(values):
            raise ValueError(f"feature {self.name} has a value twice")
        return self

    @property
    def columns(self) -> int:
        """How many numbers of a context it is."""
        return 1 if self.values is None else len(self.values)

    def encode(self, value: float | str) -> list[float]:
        """Its numbers."""
        if self.values is not None:
            if value not in self.values:
                raise InvalidInputError(f"feature {self.name} is one of its values, as a text")
            return [float(value == v) for v in self.values]
        if isinstance(value, str):
            raise InvalidInputError(f"feature {self.name} is a number")
        if self.low is None or self.high is None:
            return [float(value)]
        if not self.low <= value <= self.high:
            raise InvalidInputError(f"feature {self.name} is between {self.low:g} and {self.high:g}")
        return [(value - self.low) / (self.high - self.low)]


def encode(features: Sequence[Feature], context: Mapping[str, float | str]) -> list[float]:
    """A context from an object that names every feature, and nothing else.

    >>> parts = [Feature(name="age", low=0, high=100), Feature(name="device", values=("phone", "desktop"))]
    >>> encode(parts, {"device": "desktop", "age": 50})
    [0.5, 0.0, 1.0]
    """
    if not features:
        raise InvalidInputError("this service has no named features; send a list of numbers")
    names = {f.name for f in features}
    if context.keys() != names:
        missing = sorted(names - context.keys())
        what = f"lacks {', '.join(missing)}" if missing else "names a feature that this service does not have"
        raise InvalidInputError(f"the context {what}")
    return [number for f in features for number in f.encode(context[f.name])]


class ServiceSettings(BaseModel):
    """The [service] table.

    Attributes:
        reward_wait: seconds after which a decision without a reward is defaulted; 0 waits for ever.
        default_reward: what is then learned. Left out, nothing is, and a reward that comes later is learned.
        features: how many numbers a context has, or a list of named features; left out, the first decision settles it.
        snapshot_every: rows learned between two snapshots, at least.
        max_candidates: most candidates of one decision.
        max_body: largest request body, in bytes.
        start: a policy that `kinbandits fit` saved; the log is learned on top of it.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    reward_wait: float = Field(default=600.0, ge=0.0, le=1e9)
    default_reward: float | None = Field(default=None, ge=-LARGEST, le=LARGEST)
    features: Annotated[int, Field(ge=1, le=MOST_FEATURES)] | tuple[Feature, ...] | None = None
    snapshot_every: int = Field(default=1000, ge=1)
    max_candidates: int = Field(default=1000, ge=1)
    max_body: int = Field(default=1_000_000, ge=1000)
    start: str | None = None

    @field_validator("features", mode="before")
    @classmethod
    def _short_names(cls, value: object) -> object:
        """A name alone is a number of that name."""
        if not isinstance(value, list | tuple):
            return value
        features = [Feature.model_validate({"name": f} if isinstance(f, str) else f) for f in value]
        if not features or len({f.name for f in features}) < len(features):
            raise ValueError("features must be named, each once")
        return tuple(features)

    @property
    def named_features(self) -> tuple[Feature, ...]:
        """The features by name; empty if they have none."""
        return self.features if isinstance(self.features, tuple) else ()

    @property
    def n_features(self) -> int | None:
        """How many numbers a context has, if it is known beforehand."""
        return sum(f.columns for f in self.features) if isinstance(self.features, tuple) else self.features


class Settings(BaseModel):
    """How to build the policy, and how to serve it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    policy: dict[str, Any] = Field(default_factory=lambda: {"arms": 10})
    service: ServiceSettings = ServiceSettings()

    def new_policy(self) -> kb.KMTLUCB:
        """A policy that has learned nothing."""
        try:
            policy = kb.KMTLUCB(
                **{n: v if n == "arms" else read_value(v, n) for n, v in {**DEFAULTS, **self.policy}.items()}
            )
        except (KinbanditsError, TypeError) as error:
            raise InvalidInputError(f"[policy] cannot be used: {error}") from error
        check_arms(policy.arms)
        return policy

    def check_start(self, policy: object, path: str) -> kb.KMTLUCB:
        """A fitted policy to begin with; it must have been fitted with what [policy] names."""
        if not isinstance(policy, kb.KMTLUCB):
            raise InvalidInputError(f"{path} holds a {type(policy).__name__}; only KMTLUCB is served")
        check_arms(policy.arms)
        wanted = self.new_policy()
        missing = sorted(map(str, set(wanted.arms) - set(policy.arms))) if "arms" in self.policy else []
        if missing:
            text = f"{path} was fitted without the arms {missing} of [policy]; fit it again with them, or add them once"
            raise InvalidInputError(f"{text} the service runs")
        for name, value in self.policy.items():
            has = getattr(policy, name)
            if name != "arms" and has != getattr(wanted, name):
                text = f"{path} was fitted with {name} = {has!r}, but [policy] says {value!r}; fit it again"
                raise InvalidInputError(f"{text}, or take {name} out of [policy]")
        columns, n = [f.name for f in self.service.named_features], self.service.n_features
        if n is not None and policy.n_features not in (None, n):
            raise InvalidInputError(f"{path} was fitted on {policy.n_features} features, but [service] has {n}")
        if policy.feature_names and n == len(columns) and list(policy.feature_names) != columns:
            known, given = ", ".join(policy.feature_names), ", ".join(columns)
            raise InvalidInputError(f"{path} was fitted on {known} in this order, but features are {given}")
        return policy

    def fingerprint(self) -> str:
        """A digest of what the model depends on besides the log."""
        text = json.dumps([{**DEFAULTS, **self.policy}, self.service.n_features], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def load_settings(path: str | Path, start: str | Path | None = None) -> Settings:
    """Settings from a TOML file; ``start`` in place of that of its [service] table."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read as TOML: {error}") from error
    if start is not None:
        data["service"] = {**data.get("service", {}), "start": str(start)}
    if not data.keys() <= Settings.model_fields.keys():
        raise InvalidInputError(f"{path} {_not_settings(data)}")
    try:
        settings = Settings.model_validate(data)
        settings.new_policy()
    except ValidationError as error:
        raise InvalidInputError(f"{path}: {_first_error(error)}") from error
    except KinbanditsError as error:
        raise InvalidInputError(f"{path}: {error}") from error
    return settings


def _not_settings(data: dict[str, Any]) -> str:
    if {"environments", "methods"} & data.keys():
        text = "is an experiment (it has environments or methods): `kinbandits run` plays it. A service's file has"
        return f"{text} a [policy] table with arms, and a [service] table"
    names = ", ".join(sorted(data.keys() - Settings.model_fields.keys()))
    more = ". A shadow has a file of its own: `kinbandits log shadow LOG shadow.toml`" if "shadow" in data else ""
    return f"has {names}, but a service's file has only the tables [policy] and [service]{more}"


def _first_error(error: ValidationError) -> str:
    """The first thing pydantic noticed, in our words."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"there is no setting {where}; there are {', '.join(ServiceSettings.model_fields)}"
    return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}, got {first['input']!r}"


def check_arms(arms: Iterable[object]) -> None:
    """Names of arms that can stand in a path and be told apart there: not both 1 and "1"."""
    seen: dict[str, ArmName] = {}
    for arm in arms:
        if isinstance(arm, str):
            if re.fullmatch(ARM[1:-1], arm) is None:
                raise InvalidInputError(
                    f"arm {arm!r} cannot be served: a name has 1 to 200 characters, no / and no control characters"
                )
        elif isinstance(arm, bool) or not isinstance(arm, int) or abs(arm) > LARGEST_ARM:
            raise InvalidInputError(f"arm {arm!r} cannot be served: an arm is a text or a whole number up to 2^53")
        other = seen.setdefault(str(arm), arm)
        if type(other) is not type(arm):
            raise InvalidInputError(f"arms {other!r} and {arm!r} look the same in a path; rename one of them")
