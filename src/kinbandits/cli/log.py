"""``kinbandits log``: what can be done with the service's log."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinbandits.cli.output import need
from kinbandits.log_rows import seconds

if TYPE_CHECKING:
    from kinbandits.service.config import Settings
    from kinbandits.service.store import Store

Config = Annotated[Path, typer.Option(help="The service's TOML file.")]
Log = Annotated[str, typer.Argument(help="The log: a file (SQLite), or postgresql://user@host/database.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    log = typer.Typer(no_args_is_help=True, help="Everything about the log of a service.")
    for command in (export, import_, shadow, verify, archive, backup, restore):
        log.command(command.__name__.strip("_"))(command)
    app.add_typer(log, name="log")


@contextlib.contextmanager
def _opened(url: str, *, readonly: bool = True) -> Iterator[Store]:
    need("the log of a service", "serve", "sqlalchemy")
    from kinbandits.service.store import open_store

    with contextlib.closing(open_store(url, readonly=readonly, create=not readonly)) as store:
        yield store


def _settings(path: Path) -> Settings:
    from kinbandits.service.config import load_settings

    return load_settings(path)


def export(log: Log, path: Annotated[Path, typer.Argument(help="A .jsonl, .csv or .parquet file.")]) -> None:
    """Write one row per decision. The service may run meanwhile.

    \b
    Examples:
      kinbandits log export news.sqlite3 news.csv
      kinbandits log export postgresql://kin@localhost/news monday.parquet
    """
    from kinbandits.service.transfer import export_log

    with _opened(log) as store:
        print(f"{export_log(store, path):,} decisions in {path}")


def import_(
    log: Log,
    path: Annotated[Path, typer.Argument(help="A .csv, .jsonl or .parquet file.")],
    config: Config,
    arm: Annotated[str, typer.Option(help="Column of the arm.")] = "arm",
    reward: Annotated[str, typer.Option(help="Column of the reward.")] = "reward",
    context: Annotated[str, typer.Option(help="Columns of the context, with commas.")] = "context",
    propensity: Annotated[str, typer.Option(help="Column of the propensity; empty: arms were drawn evenly.")] = "",
    at: Annotated[
        str, typer.Option(help="Column of the time: dates and times, or seconds since 1970; empty: now.")
    ] = "",
    again: Annotated[bool, typer.Option("--again", help="Import a file once more.")] = False,
) -> None:
    """Append the rounds of an existing log, which the service then learns. Stop the service first.

    \b
    Examples:
      kinbandits log import news.sqlite3 old.csv --config news.toml --context age,hour --propensity p
    """
    from kinbandits.service.transfer import import_log

    columns: dict[str, Any] = {"arm": arm, "reward": reward, "propensity": propensity or None, "at": at or None}
    settings = _settings(config)
    with _opened(log, readonly=False) as store:
        n = import_log(store, path, settings, context=context.split(","), again=again, **columns)
    print(f"{n:,} rounds imported into {log}")


def shadow(
    log: Log,
    config: Annotated[Path, typer.Argument(help="TOML file with the [policy] of the shadow.")],
    every: Annotated[float, typer.Option(help="Go on for ever, and print again after so many seconds; 0: once.")] = 0.0,
) -> None:
    """Estimate what another policy would have earned, which learns from the log as it grows.

    \b
    Examples:
      kinbandits log shadow news.sqlite3 other.toml --every 60
    """
    from kinbandits.service.transfer import Shadow

    settings = _settings(config)
    with _opened(log) as store:
        shadowing = Shadow(store, settings)
        while True:
            found = shadowing.follow()
            print("no rewarded decisions yet" if found is None else found, flush=True)
            if not every:
                return
            time.sleep(every)


def verify(log: Log) -> None:
    """Check that nothing of the log is damaged, missing or counted twice. Ends with 1 if something is.

    \b
    Examples:
      kinbandits log verify news.sqlite3
    """
    from kinbandits.service.verify import verify as work

    with _opened(log) as store:
        problems, last = work(store), store.last_seq()
    print("\n".join(problems) if problems else f"{last:,} events, all in order.")
    if problems:
        raise typer.Exit(1)


def archive(
    log: Log,
    path: Annotated[Path, typer.Argument(help="A new .parquet file.")],
    config: Config,
    before: Annotated[str, typer.Option(help="How old: 90d, 12h, or a date like 2026-01-31.")],
) -> None:
    """Move old decisions to a file; what they taught the model is kept. Stop the service first.

    \b
    Examples:
      kinbandits log archive news.sqlite3 2026-01.parquet --config news.toml --before 90d
    """
    from kinbandits.service.verify import archive as work

    settings = _settings(config)
    with _opened(log, readonly=False) as store:
        n, events = work(store, path, settings, _time(before))
    print(f"{n:,} decisions in {path}; {events:,} events left the log." if events else "Nothing is that old.")


def _time(text: str) -> float:
    """Seconds since 1970, of an age or a date."""
    age = re.fullmatch(r"(\d+)([dh])", text)
    if age is not None:
        return time.time() - int(age[1]) * (86_400.0 if age[2] == "d" else 3600.0)
    return seconds(text, "--before is an age (90d, 12h), or")


def backup(log: Log, target: Annotated[Path, typer.Argument(help="A new file.")]) -> None:
    """Copy an SQLite log, consistently, while the service runs; then verify the copy.

    \b
    Examples:
      kinbandits log backup news.sqlite3 /backups/news-monday.sqlite3
    """
    from kinbandits.service.verify import backup as work

    with _opened(log) as store:
        print(f"{work(store, target):,} events in {target}, all in order.")


def restore(
    source: Annotated[Path, typer.Argument(help="A backup.")],
    target: Annotated[Path, typer.Argument(help="Where the log shall be; nothing may be there.")],
    force: Annotated[bool, typer.Option("--force", help="Also if it is not in order.")] = False,
) -> None:
    """Verify a backup and put it in place.

    \b
    Examples:
      kinbandits log restore /backups/news-monday.sqlite3 news.sqlite3
    """
    from kinbandits.service.verify import restore as work

    n, problems = work(source, target, force)
    print(f"{n:,} events in {target}, {'all in order.' if not problems else 'but: ' + problems[0]}")
