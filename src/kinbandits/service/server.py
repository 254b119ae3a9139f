"""Running the service: uvicorn, logs as JSON lines, and a clean end."""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from collections.abc import Mapping

import uvicorn

from kinbandits.errors import KinbanditsError
from kinbandits.service.app import create_app
from kinbandits.service.config import Settings
from kinbandits.service.connections import Connection, Server, allow_many_files
from kinbandits.service.engine import Engine
from kinbandits.service.guard import Guard
from kinbandits.service.several import Several
from kinbandits.service.store import Store

_PLAIN = set(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


class ServiceFailedError(KinbanditsError, RuntimeError):
    """The service could not go on, and has ended."""


class JSONLines(logging.Formatter):
    """One line of JSON per record."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **{k: v for k, v in record.__dict__.items() if k not in _PLAIN},
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logs(level: str = "info") -> None:
    """Logs of the service and its server, as JSON lines on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    logging.captureWarnings(True)  # of the model, say that its dictionary is too small
    for name in ("kinbandits.service", "uvicorn.error", "py.warnings"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())


def run(
    stores: Store | Mapping[str, Store],
    settings: Settings | Mapping[str, Settings],
    *,
    host: str = "127.0.0.1",
    port: int = 8321,
    log_level: str = "info",
    forwarded_allow_ips: str = "127.0.0.1",
) -> None:
    """Serve until stopped (SIGINT, SIGTERM): requests that were taken are answered first.

    One policy, or several by name, each with its own log.
    """
    set_up_logs(log_level)
    allow_many_files()
    sys.setswitchinterval(0.001)  # the threads of engine and server hand over to each other often
    engines = _engines(stores, settings)
    apps = {name: create_app(engine, trusted_proxies=forwarded_allow_ips) for name, engine in engines.items()}
    app = apps[""] if "" in apps else Several(apps, engines)
    gc.freeze()  # what is there now stays; and what requests leave behind is mostly not garbage in circles
    gc.set_threshold(20_000, 20, 20)
    server = Server(server_config(app, host, port))

    def end(message: str) -> None:
        server.should_exit = True

    for engine in engines.values():
        engine.on_failure = end
    server.run()
    for name, engine in engines.items():
        if engine.failure is not None:
            raise ServiceFailedError(f"{name}: {engine.failure}" if name else engine.failure)


def server_config(app: Guard | Several, host: str, port: int) -> uvicorn.Config:
    """How uvicorn serves it."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        proxy_headers=False,  # the application sees to them where they matter; and it would hide ``app.direct``
    )


def _engines(stores: Store | Mapping[str, Store], settings: Settings | Mapping[str, Settings]) -> dict[str, Engine]:
    if isinstance(stores, Store) and isinstance(settings, Settings):
        return {"": Engine(stores, settings)}
    assert isinstance(stores, Mapping)
    assert isinstance(settings, Mapping)
    return {name: Engine(store, settings[name]) for name, store in stores.items()}
