"""``kinbandits fit``: a policy from logs of any length."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from kinbandits.cli.output import need

Logs = Annotated[list[str], typer.Argument(help="Parquet files or folders of them; or the log of a service.")]
Since = Annotated[
    str, typer.Option(help="Leave out earlier rows: a date (2026-11-15, UTC), or seconds since 1970.")
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a dask scheduler, or threads (default), loky, sync: this machine.")
]
Jobs = Annotated[int | None, typer.Option(help="Tasks at a time on this machine.", show_default="all processors")]
Bad = Annotated[str, typer.Option(help="What to do with bad rows: refuse or skip.")]
Arm = Annotated[str, typer.Option(help="Column of the arm.")]
Reward = Annotated[str | None, typer.Option(help="Column of the reward.", show_default="learned, or reward")]
Context = Annotated[str, typer.Option(help="Columns of the context, with commas.")]
At = Annotated[str, typer.Option(help="Column of the time, seconds since 1970.")]
PartitionRows = Annotated[int, typer.Option(help="Rows of a partition, about.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fit)


def fit(
    logs: Logs,
    policy: Annotated[Path, typer.Option(help="TOML file with a [policy]; or a fitted policy, to add rows to.")],
    out: Annotated[Path, typer.Option(help="Where to save the policy; kb.load and serve --start read it.")],
    since: Since = "",
    scheduler: Scheduler = None,
    jobs: Jobs = None,
    bad: Bad = "refuse",
    arm: Arm = "arm",
    reward: Reward = None,
    context: Context = "context",
    at: At = "at",
    seed: Annotated[int, typer.Option(help="Of the sample that points are drawn from.")] = 0,
    partition_rows: PartitionRows = 2**17,
) -> None:
    """Teach a policy with logs of any length, on this machine or a dask cluster, and save it.

    Killed, it goes on where it was when it is started again: finished partitions wait in OUT.work.

    \b
    Examples:
      kinbandits fit rows/ --policy news.toml --out start.policy
      kinbandits fit rows/ --policy news.toml --out /shared/start.policy --scheduler tcp://head:8786
      kinbandits fit news.sqlite3 --policy start.policy --since 2026-11-15 --out tonight.policy
    """
    need("fit", "dask", "dask", "pyarrow")
    from kinbandits.bulk import Columns, fitted
    from kinbandits.bulk.table import seconds
    from kinbandits.policies import load
    from kinbandits.service.config import load_settings

    teach = load_settings(policy).untaught() if policy.suffix == ".toml" else load(policy)
    columns = Columns(arm, reward, tuple(context.split(",")), at=at)
    start = seconds(since) if since else None
    with _files(logs) as files:
        done = fitted(
            files,
            teach,
            columns=columns,
            since=start,
            seed=seed,
            bad=bad,
            scheduler=scheduler,
            jobs=jobs,
            partition_rows=partition_rows,
            work=out.with_name(out.name + ".work"),
        )
    done.policy.save(out)
    points = done.policy.engine_report()["points"]
    print(f"{done.rows:,} rows learned at {points:,} points; {done.policy.n_observations:,} in all. Saved as {out}")
    for why, n in done.left_out.items():
        print(f"Left out: {n:,} rows, {why}")


@contextlib.contextmanager
def _files(logs: list[str]) -> Iterator[list[str]]:
    """The logs as Parquet: that of a service is exported to a temporary folder."""
    stores = [log for log in logs if "://" in log or log.endswith((".sqlite3", ".sqlite", ".db"))]
    if not stores:
        yield logs
        return
    from kinbandits.service.exchange import export_log
    from kinbandits.service.store import open_store

    with tempfile.TemporaryDirectory(prefix="kinbandits-") as folder:
        for i, url in enumerate(stores):
            store = open_store(url, readonly=True)
            try:
                export_log(store, Path(folder) / f"log-{i:03}")
            finally:
                store.close()
        yield [*(log for log in logs if log not in stores), folder]
