"""``kinbandits serve``: the decision service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


def serve(
    config: Annotated[
        list[Path] | None,
        typer.Argument(help="TOML file with a [policy] and a [service] table; or several.", show_default=False),
    ] = None,
    store: Annotated[
        str,
        typer.Option(help="The log: a file (SQLite), or postgresql://user@host/database; for several, a folder."),
    ] = "kinbandits.sqlite3",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8321,
    start: Annotated[
        Path | None, typer.Option(help="A policy that `kinbandits fit` saved, to begin with.", show_default=False)
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="A throw-away service with simulated clients.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    forwarded_allow_ips: Annotated[
        str, typer.Option(help="Proxies whose X-Forwarded headers are believed.")
    ] = "127.0.0.1",
) -> None:
    """Serve decisions over HTTP, from a log that survives a crash.

    On the first start an admin token is made and shown once.

    \b
    Examples:
      kinbandits serve --demo
      kinbandits serve news.toml --store /var/lib/kinbandits/news.sqlite3
      kinbandits serve news.toml --store postgresql://kin@localhost/news --port 8322
      kinbandits serve news.toml --start start.policy
      kinbandits serve news.toml shop.toml --store /var/lib/kinbandits
    """
    from kinbandits.service.commands import run_serve

    run_serve(
        config or [],
        store=store,
        host=host,
        port=port,
        start=start,
        demo=demo,
        log_level=log_level,
        forwarded_allow_ips=forwarded_allow_ips,
    )
