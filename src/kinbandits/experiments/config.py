"""What an experiment is: environments, methods and seeds, as a TOML file names them (docs/experiment.md has one).

Every combination of environment, method and seed is one `Cell`. A cell's identity is a hash of all that its
result depends on: the environment, the method's settings, the seed and `FORMAT`.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from kinbandits._value import read_value, suggest
from kinbandits.environments import KINDS, Environment, make_environment
from kinbandits.errors import InvalidInputError, InvalidTypeError, KinbanditsError
from kinbandits.policy import KMTLUCB, Policy

FORMAT = 3
"""Raised when a change of code changes results, so that old cells are not taken for new ones."""


def policies() -> dict[str, Any]:
    """The policies that a file may name: classes, and functions that make one."""
    from kinbandits import baselines

    return {"KMTLUCB": KMTLUCB} | {name: getattr(baselines, name) for name in baselines.__all__}


def policy_named(name: str) -> Any:
    """One of our policies by name, or yours as ``package.module:Name``.

    A class of yours is called with the arms, the settings and ``seed=``.
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        if name not in policies():
            known = ", ".join(policies())
            raise ValueError(f"there is no policy {name!r}; there are {known}, and your own as package.module:Name")
        return policies()[name]
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the policy {name!r} cannot be imported ({error})") from error


def _seed_list(seeds: Any) -> Any:
    """A number n as the seeds 0 .. n-1; a list as it is, if its seeds are different."""
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {seeds}")
        return list(range(seeds))
    whole = isinstance(seeds, list) and bool(seeds) and all(isinstance(s, int) for s in seeds)  # else pydantic says
    if whole and (len(set(seeds)) < len(seeds) or min(seeds) < 0):
        raise ValueError(f"seeds must be different numbers of at least 0, got {seeds}")
    return seeds


Seeds = Annotated[list[int], BeforeValidator(_seed_list)]


class EnvironmentConfig(BaseModel):
    """One ``[[environments]]`` table: a kind, and options of that kind."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str
    name: str = ""
    seeds: Seeds | None = None

    @model_validator(mode="after")
    def _known_kind(self) -> EnvironmentConfig:
        if self.kind not in KINDS:
            raise ValueError(f"there is no environment {self.kind!r}; there are {', '.join(KINDS)}")
        if "seed" in self.options:
            raise ValueError(f"an environment has no seed of its own; write seeds = [{self.options['seed']}]")
        return self

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    def make(self, seed: int) -> Environment:
        return make_environment(self.kind, **self.options, seed=seed)

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, **plain(self.options)}


class MethodConfig(BaseModel):
    """One ``[[methods]]`` table: a policy, and arguments of that policy."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = Field(min_length=1)
    policy: str = "KMTLUCB"
    environments: list[str] | None = None

    @model_validator(mode="after")
    def _known_settings(self) -> MethodConfig:
        parameters = inspect.signature(policy_named(self.policy)).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return self  # a name for KMTLUCB, which will check
        allowed = {p.name for p in parameters} - {"arms", "seed"}
        for name in self.settings:
            if name not in allowed:
                has = f"it has {', '.join(sorted(allowed))}{suggest(name, allowed)}"
                raise ValueError(f"{self.policy} has no setting {name!r}; {has}")
        return self

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    def record(self) -> dict[str, Any]:
        return {"policy": self.policy, **plain(self.settings)}

    def make(self, environment: Environment, seed: int) -> Policy:
        """A new policy. The setting "environment" stands for the environment's own: descriptors, graph, clusters."""
        where, settings = f"methods.{self.name}", self.settings
        for name, value in settings.items():
            if value == "environment":
                settings[name] = getattr(environment, name, None)
                if settings[name] is None:
                    raise InvalidInputError(f'{where}.{name} is "environment", but {environment.name} has no {name}')
            else:
                settings[name] = read_value(value, f"{where}.{name}", getattr(environment, "descriptors", None))
        try:
            policy: Policy = policy_named(self.policy)(environment.arms, **settings, seed=seed)
        except (KinbanditsError, TypeError) as error:
            raise InvalidInputError(f"{where}: {error}") from error
        return policy


class Experiment(BaseModel):
    """A whole experiment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=100)
    environments: list[EnvironmentConfig] = Field(min_length=1)
    methods: list[MethodConfig] = Field(min_length=1)
    seeds: Seeds = Field(min_length=1)
    horizon: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _names(self) -> Experiment:
        horizon = {} if self.horizon is None else {"horizon": self.horizon}
        for i, e in enumerate(self.environments):  # the horizon of those that have none of their own, and names
            table = {"name": str(e.options.get("data", e.kind))} | horizon | e.model_dump(exclude_defaults=True)
            self.environments[i] = EnvironmentConfig.model_validate(table)
        names = [e.name for e in self.environments]
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise ValueError(f"two environments are called {twice!r}; give each its own name")
        pairs = [(m.name, n) for m in self.methods for n in (m.environments or names)]
        for method, environment in pairs:
            if environment not in names:
                raise ValueError(
                    f"method {method!r} names the environment {environment!r}; there are {', '.join(names)}"
                )
        if len(set(pairs)) < len(pairs):
            method, environment = next(p for p in pairs if pairs.count(p) > 1)
            raise ValueError(f"two methods are called {method!r} on {environment!r}; give each its own name")
        return self

    def cells(self) -> list[Cell]:
        return [Cell(e, m, seed) for e in self.environments for m in self.methods_on(e) for seed in self.seeds_of(e)]

    def methods_on(self, e: EnvironmentConfig) -> list[MethodConfig]:
        return [m for m in self.methods if m.environments is None or e.name in m.environments]

    def seeds_of(self, e: EnvironmentConfig) -> list[int]:
        return self.seeds if e.seeds is None else e.seeds

    def check(self) -> dict[str, int]:
        """Make every environment and policy once, so that mistakes show before hours of work; gives the horizons."""
        horizons = {}
        for e in self.environments:
            try:
                environment = e.make(self.seeds_of(e)[0])
            except KinbanditsError as error:
                raise InvalidInputError(f"environments.{e.name}: {error}") from error
            for m in self.methods_on(e):
                m.make(environment, self.seeds_of(e)[0])
            horizons[e.name] = environment.horizon
        return horizons

    def record(self) -> dict[str, Any]:
        """The experiment as plain data, for its directory."""
        return {
            "format": FORMAT,
            "name": self.name,
            "environments": {e.name: e.record() for e in self.environments},
            "methods": {
                m.name if m.environments is None else f"{m.name} on {', '.join(m.environments)}": m.record()
                for m in self.methods
            },
        }


@dataclass(frozen=True)
class Cell:
    """One run: an environment, a method, a seed."""

    environment: EnvironmentConfig
    method: MethodConfig
    seed: int

    @cached_property
    def id(self) -> str:
        """A hash of all that the result depends on."""
        content = {
            "format": FORMAT,
            "environment": self.environment.record(),
            "method": self.method.record(),
            "seed": self.seed,
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def make(self) -> tuple[Environment, Policy]:
        environment = self.environment.make(self.seed)
        return environment, self.method.make(environment, self.seed)

    def __str__(self) -> str:
        return f"{self.environment.name} / {self.method.name} / seed {self.seed}"


def load_experiment(path: str | PathLike[str]) -> Experiment:
    """Read a TOML file. Relative file names in it are seen from where it stands."""
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInputError(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} is not TOML: {error}") from error
    data.setdefault("name", path.stem)
    tables = data.get("environments")
    for table in tables if isinstance(tables, list) else []:
        for key in {"path", "data", "log"} & set(table if isinstance(table, dict) else ()):
            if isinstance(table[key], str) and (path.parent / table[key]).is_file():
                table[key] = str((path.parent / table[key]).resolve())
    return experiment_of(data, str(path))


def experiment_of(data: dict[str, Any], source: str = "experiment") -> Experiment:
    """An experiment from plain data, with errors that name the key."""
    try:
        return Experiment.model_validate(data)
    except ValidationError as error:
        lines = []
        for problem in error.errors(include_url=False, include_input=True):
            place = _place(problem["loc"], data)
            text = re.sub(r"^(Value error|Assertion failed), ", "", problem["msg"])
            if problem["type"] == "extra_forbidden":
                known = Experiment.model_fields
                text = f"there is no such key; there are {', '.join(known)}{suggest(problem['loc'][-1], known)}"
            given = "" if problem["type"] in ("missing", "value_error") else f" (got {problem['input']!r:.60})"
            lines.append(f"{place}: {text}{given}" if place else f"{text}")
        raise InvalidInputError(f"{source} cannot be used: " + "; ".join(lines)) from None


def _place(location: tuple[Any, ...], data: Any) -> str:
    """A key as a person would say it: ``methods[1] ("estimated").ridge``."""
    place = ""
    for part in location:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            data = None
        if isinstance(part, str):
            place += f".{part}" if place else part
        else:
            name = data.get("name") if isinstance(data, dict) else None
            place += f"[{part}] ({name!r})" if name else f"[{part}]"
    return place


def plain(value: Any) -> Any:
    """JSON data; a file is known by the hash of what is in it, not by where it stands."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, str) and Path(value).suffix and Path(value).is_file():
        status = Path(value).stat()
        return {"file": Path(value).name, "sha256": _sha256(value, status.st_mtime_ns, status.st_size)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidTypeError(f"an experiment is made of plain values (numbers, text, lists, tables), got {value!r}")


@lru_cache(maxsize=64)
def _sha256(path: str, written: int, size: int) -> str:
    """The hash of a file; read again only when the file has changed."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
