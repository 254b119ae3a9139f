"""``kinbandits serve``: the decision service; ``kinbandits token``: who may ask it."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from kinbandits.errors import InvalidInputError, MissingPackageError, package

TOKENS = Path("tokens.toml")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(serve)
    token = typer.Typer(no_args_is_help=True, help="Tokens of the decision service.")
    token.command("new")(new_token)
    token.callback()(lambda: None)
    app.add_typer(token, name="token")


def new_token(
    name: Annotated[str, typer.Argument(help="Its name, for logs.")],
    role: Annotated[list[str], typer.Option(help="decide, reward, read or admin; may be repeated.")],
    tokens: Annotated[Path, typer.Option(help="The file of tokens.")] = TOKENS,
) -> None:
    """Make a token: its secret is printed this once, its hash is kept in the file. A running service reads it anew.

    \b
    Examples:
      kinbandits token new admin --role admin
      kinbandits token new shop --role decide --role reward --tokens /etc/kinbandits/tokens.toml
    """
    package("fastapi", "tokens of the service need", "'kinbandits[serve]'")
    from kinbandits.service import auth

    print(auth.new_token(tokens, name, role))


def serve(
    config: Annotated[
        Path | None, typer.Argument(help="TOML file with a [policy] and a [service] table.", show_default=False)
    ] = None,
    store: Annotated[
        str, typer.Option(help="The log: a file (SQLite), or postgresql://user@host/database.")
    ] = "kinbandits.sqlite3",
    tokens: Annotated[Path, typer.Option(help="The file of tokens; `kinbandits token new` makes it.")] = TOKENS,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8321,
    start: Annotated[
        Path | None, typer.Option(help="A policy that `kinbandits fit` saved, to begin with.", show_default=False)
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="A throw-away service with simulated clients.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve decisions over HTTP, from a log that survives a crash.

    \b
    Examples:
      kinbandits serve --demo
      kinbandits serve news.toml --store /var/lib/kinbandits/news.sqlite3
      kinbandits serve news.toml --store postgresql://kin@localhost/news --port 8322
      kinbandits serve news.toml --start start.policy
    """
    try:
        from kinbandits.service import server
        from kinbandits.service.engine import Engine
        from kinbandits.service.learner import begin_with
    except ImportError as error:
        raise MissingPackageError(
            f"the service needs {error.name}, which is not installed: pip install 'kinbandits[serve]'"
        ) from error
    if log_level not in ("debug", "info", "warning", "error"):
        raise InvalidInputError(f"--log-level must be debug, info, warning or error, got {log_level!r}")
    if not 0 <= port <= 65535:
        raise InvalidInputError(f"--port must be between 0 and 65535, got {port}")
    if demo:
        _demo(host, port)
        return
    from kinbandits.service.auth import Tokens
    from kinbandits.service.config import Settings, load_settings
    from kinbandits.service.store import open_store

    if config is None and start is not None:
        raise InvalidInputError("--start needs the settings file of the service")
    settings = Settings() if config is None else load_settings(config, start)
    if config is None:
        _say("No settings given: serving 10 arms, 0 to 9. Write a TOML file to serve your own.")
    if settings.service.n_features is None:
        _say("features is not set: the first decision settles how many numbers a context has.")
    who = Tokens(tokens)
    with server.listen(host, port) as wire, contextlib.closing(open_store(store)) as log:
        said = begin_with(log, settings)
        if said is not None:
            _say(said)
        server.set_up_logs(log_level)
        engine, address = Engine(log, settings), wire.getsockname()
        server.run(engine, who, wire, lambda: _ready(engine, address, log.name))


def _ready(engine: object, address: tuple[str, int], log: str) -> None:
    epsilon = engine.serving.policy.epsilon  # type: ignore[attr-defined]
    if epsilon == 0.0:
        _say("epsilon is 0: unless the rule draws by itself, this log cannot be used to evaluate other policies.")
    _say(f"Serving on http://{address[0]}:{address[1]}/ from the log {log}")


def _demo(host: str, port: int) -> None:
    """A throw-away service: log and tokens in a temporary folder."""
    from kinbandits.service import auth, demo, server
    from kinbandits.service.engine import Engine
    from kinbandits.service.store import open_store

    server.set_up_logs("error")
    with tempfile.TemporaryDirectory(prefix="kinbandits-demo-") as folder:
        file = Path(folder) / "tokens.toml"
        token = auth.new_token(file, "demo", ["admin"])
        wire = server.listen(host, port)
        address = f"{host}:{wire.getsockname()[1]}"

        def ready() -> None:
            _say(
                f"A throw-away service with simulated visitors. Watch it learn:\n\n    http://demo:{token}@{address}/\n\n"
                f"Or ask it yourself:\n\n    curl -s http://{address}/v1/decisions -H 'Authorization: Bearer "
                f"{token}' \\\n"
                "      -H 'Content-Type: application/json' -d '{\"context\": [0.3, 0.8]}'\n\nStop it with Ctrl+C."
            )
            demo.send_visitors(f"http://{address}", token)

        log = open_store(str(Path(folder) / "demo.sqlite3"))
        try:
            server.run(Engine(log, demo.SETTINGS), auth.Tokens(file), wire, ready)
        finally:
            log.close()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
