"""What an experiment is: environments, methods and seeds, as a TOML file names them (docs/experiments.md has one).

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

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from kinbandits._value import read_value, suggest
from kinbandits.environments import KINDS, Environment, make_environment
from kinbandits.errors import InvalidInputError, InvalidTypeError, KinbanditsError
from kinbandits.policy import KMTLUCB, Policy

FORMAT = 3
"""Raised when a change of code changes results, so that old cells are not taken for new ones."""


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

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        if kind not in KINDS:
            raise ValueError(f"there is no environment {kind!r}; there are {', '.join(KINDS)}")
        return kind

    @model_validator(mode="after")
    def _no_seed(self) -> EnvironmentConfig:
        if "seed" in self.options:
            raise ValueError(f"an environment has no seed of its own; write seeds = [{self.options['seed']}]")
        return self

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    def has(self, option: str) -> bool:
        """Whether environments of this kind have this option."""
        return option in inspect.signature(KINDS[self.kind]).parameters

    def make(self, seed: int) -> Environment:
        return make_environment(self.kind, **self.options, **({"seed": seed} if self.has("seed") else {}))

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, **{k: plain(v) for k, v in sorted(self.options.items())}}


class MethodConfig(BaseModel):
    """One ``[[methods]]`` table: a policy, and arguments of that policy."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = Field(min_length=1)
    policy: str = "KMTLUCB"
    environments: list[str] | None = None

    @field_validator("policy")
    @classmethod
    def _known_policy(cls, policy: str) -> str:
        policy_named(policy)
        return policy

    @model_validator(mode="after")
    def _known_settings(self) -> MethodConfig:
        parameters = inspect.signature(policy_named(self.policy)).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return self  # a name for KMTLUCB, which will check
        allowed = {p.name for p in parameters} - {"arms", "seed"}
        for name in self.model_extra or {}:
            if name not in allowed:
                has = f"it has {', '.join(sorted(allowed))}{suggest(name, allowed)}"
                raise ValueError(f"{self.policy} has no setting {name!r}; {has}")
        return self

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    def record(self) -> dict[str, Any]:
        settings = {k: plain(v) for k, v in sorted(self.settings.items())}
        return {"policy": self.policy, **settings}

    def make(self, environment: Environment, seed: int) -> Policy:
        descriptors = getattr(environment, "descriptors", None)
        where = f"methods.{self.name}"
        known = {k: _from_environment(v, k, environment, where) for k, v in self.settings.items()}
        settings = {k: read_value(v, f"{where}.{k}", descriptors) for k, v in known.items()}
        try:
            kind = policy_named(self.policy)
            build = getattr(kind, "for_environment", None)
            make, game = (kind, environment.arms) if build is None else (build, environment)
            policy: Policy = make(game, **settings, seed=seed)
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
    description: str = ""

    @model_validator(mode="after")
    def _names(self) -> Experiment:
        for e in self.environments:
            if not e.name:
                object.__setattr__(e, "name", str(e.options.get("data", e.kind)))
            if self.horizon is not None and "horizon" not in e.options and e.has("horizon"):
                assert e.model_extra is not None
                e.model_extra["horizon"] = self.horizon
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

    def check(self) -> None:
        """Make every environment and policy once, so that mistakes show before hours of work."""
        for e in self.environments:
            try:
                environment = e.make(self.seeds_of(e)[0])
            except KinbanditsError as error:
                raise InvalidInputError(f"environments.{e.name}: {error}") from error
            for m in self.methods_on(e):
                m.make(environment, self.seeds_of(e)[0])

    def record(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.name,
            "seeds": self.seeds,
            "environments": {
                e.name: e.record() | ({} if e.seeds is None else {"seeds": e.seeds}) for e in self.environments
            },
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
    for table in data.get("environments", []) if isinstance(data.get("environments"), list) else []:
        for key in ("path", "data", "log"):
            value = table.get(key) if isinstance(table, dict) else None
            if isinstance(value, str) and not Path(value).is_absolute() and (path.parent / value).is_file():
                table[key] = str((path.parent / value).resolve())
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
            lines.append(f"  {place}: {text}{given}" if place else f"  {text}")
        raise InvalidInputError(f"{source} cannot be used:\n" + "\n".join(lines)) from None


def policy_named(name: str) -> Any:
    """One of our policies by name, or yours as ``package.module:Name``.

    A class of yours is called with the arms, the settings and ``seed=``. If it has a class method
    ``for_environment``, that is called with the environment in place of the arms.
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


def policies() -> dict[str, Any]:
    """The policies that a file may name: classes, and functions that make one."""
    from kinbandits import baselines

    found: dict[str, Any] = {name: getattr(baselines, name) for name in baselines.__all__}
    found["KMTLUCB"] = KMTLUCB
    return {
        name: found[name]
        for name in sorted(found)
        if (issubclass(found[name], Policy) if isinstance(found[name], type) else inspect.isfunction(found[name]))
    }


def _place(location: tuple[Any, ...], data: Any) -> str:
    """A key as a person would say it: ``methods[1] ("estimated").ridge``."""
    place = ""
    for part in location:
        if isinstance(part, int):
            place += f"[{part}]"
            data = data[part] if isinstance(data, list) and part < len(data) else None
            name = data.get("name") if isinstance(data, dict) else None
            place += f" ({name!r})" if name else ""
        else:
            place += f".{part}" if place else str(part)
            data = data.get(part) if isinstance(data, dict) else None
    return place


def _from_environment(value: Any, name: str, environment: Environment, where: str) -> Any:
    """The environment's own, where a setting is ``"environment"``: graph, items, clusters, descriptors."""
    if value != "environment":
        return value
    found = getattr(environment, name, None)
    if found is None:
        raise InvalidInputError(f'{where}.{name} is "environment", but {environment.name} has no {name}')
    return found


def plain(value: Any) -> Any:
    """JSON data; a file is known by the hash of what is in it, not by where it stands."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, str):
        return _file_record(value) or value
    if value is None or isinstance(value, bool | int | float):
        return value
    raise InvalidTypeError(f"an experiment is made of plain values (numbers, text, lists, tables), got {value!r}")


def _file_record(text: str) -> dict[str, str] | None:
    path = Path(text)
    if not path.suffix or not path.is_file():
        return None
    status = path.stat()
    return {"file": path.name, "sha256": _sha256(text, status.st_mtime_ns, status.st_size)}


@lru_cache(maxsize=64)
def _sha256(path: str, written: int, size: int) -> str:
    """The hash of a file; read again only when the file has changed."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
