"""``kinbandits log``, ``backup`` and ``restore``: what can be done with the service's log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Store = Annotated[str, typer.Argument(help="The log: a file (SQLite), or postgresql://user@host/database.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    log = typer.Typer(no_args_is_help=True, help="Export, import, replay or verify the log of a service.")
    log.command("export")(export)
    log.command("import")(import_)
    log.command("replay")(replay)
    log.command("verify")(verify)
    app.add_typer(log, name="log")
    app.command()(backup)
    app.command()(restore)


def export(
    store: Store, path: Annotated[Path, typer.Argument(help="A .jsonl, .csv or .parquet file, or a new folder.")]
) -> None:
    """Write one row per decision; to a folder, as several Parquet files. Fits beside a running service.

    \b
    Examples:
      kinbandits log export news.sqlite3 news.csv
      kinbandits log export postgresql://kin@localhost/news news.parquet
      kinbandits log export news.sqlite3 rows/monday
    """
    from kinbandits.service import exchange
    from kinbandits.service.store import open_store

    log = open_store(store, readonly=True)
    try:
        print(f"{exchange.export_log(log, path):,} decisions in {path}")
    finally:
        log.close()


def import_(
    store: Store,
    path: Annotated[Path, typer.Argument(help="A .csv, .jsonl or .parquet file.")],
    config: Annotated[Path, typer.Option(help="The service's TOML file, which names the arms.")],
    arm: Annotated[str, typer.Option(help="Column of the arm.")] = "arm",
    reward: Annotated[str, typer.Option(help="Column of the reward.")] = "reward",
    context: Annotated[str, typer.Option(help="Columns of the context, with commas.")] = "context",
    propensity: Annotated[str, typer.Option(help="Column of the propensity; empty: arms were drawn evenly.")] = "",
    at: Annotated[str, typer.Option(help="Column of the time, seconds since 1970; empty: now.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Import a file once more.")] = False,
) -> None:
    """Append the rounds of an existing log, which the service then learns. Stop the service first (SQLite).

    \b
    Examples:
      kinbandits log import news.sqlite3 old.csv --config news.toml --context age,hour --propensity p
      kinbandits log import news.sqlite3 old.jsonl --config news.toml --arm article --reward clicked
    """
    from kinbandits.log_rows import Columns
    from kinbandits.service import exchange
    from kinbandits.service.config import load_settings
    from kinbandits.service.store import open_store

    settings = load_settings(config)
    columns = Columns(arm, reward, tuple(context.split(",")), propensity or None, at or None)
    log = open_store(store)
    try:
        print(f"{exchange.import_log(log, path, columns, settings, again):,} rounds imported into {store}")
    finally:
        log.close()


def replay(
    store: Store,
    config: Annotated[Path, typer.Argument(help="TOML file with the [policy] to teach.")],
    out: Annotated[Path, typer.Argument(help="Where to save the policy; kb.load reads it.")],
) -> None:
    """Teach another policy with the whole log, and save it.

    \b
    Examples:
      kinbandits log replay news.sqlite3 other.toml other.policy
      kinbandits log replay postgresql://kin@localhost/news other.toml other.policy
    """
    from kinbandits.service.config import load_settings
    from kinbandits.service.rounds import replay as replay_log
    from kinbandits.service.store import open_store

    log = open_store(store, readonly=True)
    try:
        learner = replay_log(log, load_settings(config))
    finally:
        log.close()
    learner.policy.save(out)
    print(f"{learner.policy.n_observations:,} rows learned, {learner.refused:,} refused; saved as {out}")


def verify(
    store: Store,
    head: Annotated[
        str, typer.Option(help="The last event as an earlier verify printed it: notices that the end is lost.")
    ] = "",
) -> None:
    """Check that nothing of the log was changed, lost or counted twice. Ends with 1 if something was.

    \b
    Examples:
      kinbandits log verify news.sqlite3
      kinbandits log verify postgresql://kin@localhost/news --head 1204:0123456789abcdef0123456789abcdef
    """
    from kinbandits.service import integrity
    from kinbandits.service.events import Head
    from kinbandits.service.store import open_store

    expected = Head.parse(head) if head else None
    log = open_store(store, readonly=True)
    try:
        problems = integrity.verify(log, expected)
        last = log.head()
        print("\n".join(problems) if problems else f"{last.seq:,} events, all in order. Head: {last}")
    finally:
        log.close()
    if problems:
        raise typer.Exit(1)


def backup(store: Store, target: Annotated[Path, typer.Argument(help="A new file.")]) -> None:
    """Copy an SQLite log, consistently, while the service runs; then verify the copy.

    \b
    Examples:
      kinbandits backup news.sqlite3 /backups/news-monday.sqlite3
      kinbandits backup /var/lib/kinbandits/news.sqlite3 copy.sqlite3
    """
    from kinbandits.service import integrity
    from kinbandits.service.store import open_store

    log = open_store(store, readonly=True)
    try:
        print(f"{integrity.backup(log, target):,} events in {target}, all in order.")
    finally:
        log.close()


def restore(
    source: Annotated[Path, typer.Argument(help="A backup.")],
    target: Annotated[Path, typer.Argument(help="Where the log shall be; nothing may be there.")],
) -> None:
    """Verify a backup and put it in place.

    \b
    Examples:
      kinbandits restore /backups/news-monday.sqlite3 news.sqlite3
      kinbandits restore copy.sqlite3 /var/lib/kinbandits/news.sqlite3
    """
    from kinbandits.service import integrity

    n, lost = integrity.restore(source, target)
    print(f"{n:,} events in {target}, all in order.")
    if lost:
        print(f"The log that was here before had {lost:,} events more; they are not in this backup.")
