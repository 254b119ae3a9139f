"""What ``kinbandits serve`` does."""

from __future__ import annotations

import socket
import sys
import tempfile
from pathlib import Path

from kinbandits.errors import InvalidInputError, KinbanditsError
from kinbandits.service.config import Settings, load_settings
from kinbandits.service.store import open_store


class MissingExtraError(KinbanditsError, LookupError):
    """A package that the service needs is not installed."""


def run_serve(
    config: Path | None,
    *,
    store: str,
    host: str,
    port: int,
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
    from kinbandits.service.tokens import first_token

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
    settings = Settings() if config is None else load_settings(config)
    if config is None:
        _say("No settings given: serving 10 arms, 0 to 9. Write a TOML file to serve your own.")
    if settings.build().epsilon == 0.0:
        _say(
            "epsilon is 0: decisions are deterministic, so this log cannot be used to evaluate other policies "
            "(their choices have no support in it). Set epsilon = 0.05 in [policy] to keep that possible."
        )
    if settings.service.n_features is None:
        _say("features is not set: the first decision settles how many numbers a context has.")
    log = open_store(store)
    token = first_token(log)
    if token is not None:
        _say(f"Admin token, shown this once: {token}")
    _say(f"Serving on http://{host}:{port}/ (log: {log.url})")
    run(log, settings, host=host, port=port, log_level=log_level, forwarded_allow_ips=forwarded_allow_ips)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _free_port(host: str) -> int:
    with socket.socket() as s:
        s.bind((host, 0))
        return int(s.getsockname()[1])
