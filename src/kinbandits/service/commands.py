"""What ``kinbandits serve`` does."""

from __future__ import annotations

import re
import socket
import sys
import tempfile
from pathlib import Path

from kinbandits.errors import InvalidInputError, KinbanditsError
from kinbandits.service.config import Settings, load_settings
from kinbandits.service.store import Store, open_store


class MissingExtraError(KinbanditsError, LookupError):
    """A package that the service needs is not installed."""


def run_serve(
    configs: list[Path],
    *,
    store: str,
    host: str,
    port: int,
    start: Path | None,
    demo: bool,
    log_level: str,
    forwarded_allow_ips: str,
) -> None:
    """Open the log, make the first token, serve."""
    try:
        from kinbandits.service.server import run
    except ImportError as error:
        raise MissingExtraError(
            f"the service needs {error.name}, which is not installed: pip install 'kinbandits[serve]'"
        ) from error
    if log_level not in ("debug", "info", "warning", "error"):
        raise InvalidInputError(f"--log-level must be debug, info, warning or error, got {log_level!r}")
    if not 0 <= port <= 65535:
        raise InvalidInputError(f"--port must be between 0 and 65535, got {port}")
    port = port or _free_port(host)
    if demo:
        from kinbandits.service.demo import run_demo

        with tempfile.TemporaryDirectory(prefix="kinbandits-demo-") as folder:
            run_demo(Path(folder), host=host, port=port, log_level=log_level)
        return
    if not configs:
        _say("No settings given: serving 10 arms, 0 to 9. Write a TOML file to serve your own.")
    settings = {path.stem: load_settings(path, start) for path in configs} or {"": Settings()}
    if start is not None and len(configs) != 1:
        raise InvalidInputError("--start is for one settings file; several name theirs: start = ... in [service]")
    if len(settings) < len(configs):
        raise InvalidInputError("several settings files need different names: they stand in the paths")
    if len(settings) == 1:
        settings = {"": next(iter(settings.values()))}
    options = {"host": host, "port": port, "log_level": log_level, "forwarded_allow_ips": forwarded_allow_ips}
    _say(f"Serving on http://{host}:{port}/")
    logs = _open_logs(settings, store)
    if "" in logs:
        run(logs[""], settings[""], **options)  # type: ignore[arg-type]
    else:
        run(logs, settings, **options)  # type: ignore[arg-type]


def _open_logs(settings: dict[str, Settings], store: str) -> dict[str, Store]:
    """The log of each policy, with its first token; all are checked before one is opened."""
    from kinbandits.service.learner import known_of
    from kinbandits.service.tokens import first_token

    if "" not in settings and "://" in store:
        raise InvalidInputError(
            "several policies need a folder for their logs; with PostgreSQL, run a process for each"
        )
    for name, one in settings.items():
        if name and not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
            raise InvalidInputError(f"{name}.toml: a name stands in paths; give it letters, digits, - and _ only")
        _advise(f"{name}: " if name else "", one)
    logs: dict[str, Store] = {}
    for name, one in settings.items():
        logs[name] = open_store(store if not name else str(Path(store) / f"{name}.sqlite3"))
        try:
            known = known_of(logs[name], one)
        except KinbanditsError:
            for log in logs.values():
                log.close()
            raise
        token = first_token(logs[name])
        of = f" of {name} (under /{name}/)" if name else ""
        if token is not None:
            _say(f"Admin token{of}, shown this once: {token}")
        _say(f"Log{of}: {logs[name].url}")
        if known:
            _say(f"{one.service.start} has learned this log up to event {known:,}; it goes on there.")
    return logs


def _advise(name: str, settings: Settings) -> None:
    if settings.build().epsilon == 0.0:
        _say(
            f"{name}epsilon is 0: decisions are deterministic, so this log cannot be used to evaluate other "
            "policies (their choices have no support in it). Set epsilon = 0.05 in [policy] to keep that possible."
        )
    if settings.service.n_features is None:
        _say(f"{name}features is not set: the first decision settles how many numbers a context has.")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _free_port(host: str) -> int:
    with socket.socket() as s:
        s.bind((host, 0))
        return int(s.getsockname()[1])
