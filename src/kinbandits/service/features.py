"""Named features: what a context consists of, by name, so that it can be sent as an object.

[service]
features = [
    "hour",
    { name = "age", low = 0, high = 120 },
    { name = "device", values = ["phone", "desktop"] },
]

A number is one column, scaled to 0 to 1 where it has a low and a high; a feature with values is a column for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kinbandits.service.problems import Problem
from kinbandits.service.rules import LARGEST

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]
Given = Mapping[str, float | str]


class Feature(BaseModel):
    """One feature: a number, or one of several values."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    name: Name
    low: float | None = Field(default=None, ge=-LARGEST, le=LARGEST)
    high: float | None = Field(default=None, ge=-LARGEST, le=LARGEST)
    values: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] | None = Field(
        default=None, min_length=2, max_length=1000
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.values is not None and (self.low is not None or self.high is not None):
            raise ValueError(f"feature {self.name} has values, so it takes no low and high")
        if (self.low is None) != (self.high is None):
            raise ValueError(f"feature {self.name} needs both low and high, or neither")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"feature {self.name}: low must be less than high")
        if self.values is not None and len(set(self.values)) < len(self.values):
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
                raise Problem(409, "feature_value", f"feature {self.name} is one of its values, as a text")
            return [float(value == v) for v in self.values]
        if isinstance(value, str):
            raise Problem(409, "feature_value", f"feature {self.name} is a number")
        if self.low is None or self.high is None:
            return [float(value)]
        if not self.low <= value <= self.high:
            raise Problem(409, "feature_value", f"feature {self.name} is between {self.low:g} and {self.high:g}")
        return [(value - self.low) / (self.high - self.low)]


def encode(features: Sequence[Feature], given: Given) -> list[float]:
    """A context from an object that names every feature, and nothing else.

    >>> parts = [Feature(name="age", low=0, high=100), Feature(name="device", values=("phone", "desktop"))]
    >>> encode(parts, {"device": "desktop", "age": 50})
    [0.5, 0.0, 1.0]
    """
    if not features:
        raise Problem(409, "no_names", "this service has no named features; send a list of numbers")
    names = {f.name for f in features}
    if given.keys() != names:
        missing = sorted(names - given.keys())
        what = f"lacks {', '.join(missing)}" if missing else "names a feature that this service does not have"
        raise Problem(409, "feature_names", f"the context {what}")
    return [number for f in features for number in f.encode(given[f.name])]
