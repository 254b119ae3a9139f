"""``kinbandits serve``: the decision service; ``kinbandits token``: who may ask it."""

from __future__ import annotations

import contextlib
import gc
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from kinbandits.cli.output import need
from kinbandits.errors import InvalidInputError

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
    need("the service", "serve", "fastapi")
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
    need("the service", "serve", "fastapi", "uvicorn", "jinja2", "prometheus_client", "sqlalchemy")
    gc.disable()  # until it serves: what is imported now stays, and to look through it again and again takes time
    from kinbandits.service import auth, server
    from kinbandits.service.config import Settings, load_settings
    from kinbandits.service.engine import Engine
    from kinbandits.service.learner import begin_with
    from kinbandits.service.store import open_store

    if log_level not in ("debug", "info", "warning", "error"):
        raise InvalidInputError(f"--log-level must be debug, info, warning or error, got {log_level!r}")
    if not 0 <= port <= 65535:
        raise InvalidInputError(f"--port must be between 0 and 65535, got {port}")
    if config is None and start is not None:
        raise InvalidInputError("--start needs the settings file of the service")
    with contextlib.ExitStack() as stack:
        if demo:
            from kinbandits.service import demo as visitors

            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kinbandits-demo-")))
            store, tokens, settings = str(folder / "demo.sqlite3"), folder / "tokens.toml", visitors.SETTINGS
            secret = auth.new_token(tokens, "demo", ["admin"])
        else:
            settings = Settings() if config is None else load_settings(config, start)
            if config is None:
                _say("No settings given: serving 10 arms, 0 to 9. Write a TOML file to serve your own.")
            if settings.service.n_features is None:
                _say("features is not set: the first decision settles how many numbers a context has.")
        who, wire = auth.Tokens(tokens), stack.enter_context(server.listen(host, port))
        log = stack.enter_context(contextlib.closing(open_store(store)))
        said = begin_with(log, settings)
        if said is not None:
            _say(said)
        engine, address = Engine(log, settings), f"{host}:{wire.getsockname()[1]}"

        def ready() -> None:
            if demo:
                _say(_DEMO.format(secret=secret, address=address))
                visitors.send_visitors(f"http://{address}", secret)
                return
            if engine.serving.policy.epsilon == 0.0:
                _say("epsilon is 0: unless the rule draws by itself, this log cannot evaluate other policies.")
            _say(f"Serving on http://{address}/ from the log {log.name}")

        server.set_up_logs("error" if demo else log_level)
        server.run(engine, who, wire, ready)


_DEMO = """A throw-away service with simulated visitors. Watch it learn:

    http://demo:{secret}@{address}/

Or ask it yourself:

    curl -s http://{address}/v1/decisions -H 'Authorization: Bearer {secret}' \\
      -H 'Content-Type: application/json' -d '{{"context": [0.3, 0.8]}}'

Stop it with Ctrl+C."""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
