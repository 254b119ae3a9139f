"""``kinbandits fit`` and ``evaluate``: what logs teach and tell, of any length."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kinbandits.cli.output import need, print_json, print_table
from kinbandits.errors import InvalidInputError

if TYPE_CHECKING:
    from kinbandits.bulk import Comparison
    from kinbandits.ope import Evaluation
    from kinbandits.policies import KMTLUCB

Scheduler = Annotated[
    str | None, typer.Option(help="Address of a dask scheduler, or threads (default), loky, sync: this machine.")
]
Jobs = Annotated[int | None, typer.Option(help="Tasks at a time on this machine.", show_default="all processors")]
Bad = Annotated[str, typer.Option(help="What to do with bad rows: refuse or skip.")]
Arm = Annotated[str, typer.Option(help="Column of the arm.")]
Reward = Annotated[
    str | None, typer.Option(help="Column of the reward.", show_default="learned if there is one, else reward")
]
At = Annotated[str, typer.Option(help="Column of the time, seconds since 1970.")]
_TIME = "a date (2026-11-15, UTC), a time, or seconds since 1970."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(fit)
    app.command()(evaluate)


def fit(
    logs: Annotated[list[str], typer.Argument(help="Parquet files or folders of them; or the log of a service.")],
    policy: Annotated[Path, typer.Option(help="TOML file with a [policy]; or a fitted policy, to add rows to.")],
    out: Annotated[Path, typer.Option(help="Where to save the policy; kb.load and serve --start read it.")],
    since: Annotated[str, typer.Option(help=f"Leave out earlier rows: {_TIME}")] = "",
    until: Annotated[str, typer.Option(help="Leave out rows of this time and later.")] = "",
    scheduler: Scheduler = None,
    jobs: Jobs = None,
    bad: Bad = "refuse",
    arm: Arm = "arm",
    reward: Reward = None,
    context: Annotated[str, typer.Option(help="Columns of the context, with commas.")] = "context",
    at: At = "at",
    seed: Annotated[int, typer.Option(help="Of the sample that points are drawn from.")] = 0,
    partition_rows: Annotated[int, typer.Option(help="Rows of a partition, about.")] = 2**17,
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

    with _files(logs) as files:
        done = fitted(
            files,
            _read_policy(policy),
            columns=Columns(arm, reward, tuple(context.split(",")), at=at),
            since=seconds(since) if since else None,
            until=seconds(until) if until else None,
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
    _print_left_out(done.left_out)


def evaluate(
    log: Annotated[str, typer.Argument(help="A .csv or .parquet file, a folder of these, or a service's store.")],
    config: Annotated[
        Path | None, typer.Argument(help="TOML file with the [policy]; without it (tables only) the default.")
    ] = None,
    policy: Annotated[
        list[Path] | None, typer.Option(help="A TOML file or a saved policy; several are compared with the first.")
    ] = None,
    train: Annotated[
        float | None,
        typer.Option(help="Which part of the log, from its start, teaches policies of TOML files (default: half)."),
    ] = None,
    since: Annotated[str, typer.Option(help="With --policy: evaluate rows of this time and later.")] = "",
    clip: Annotated[float | None, typer.Option(help="With --policy: the largest weight.")] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="End with 3 unless the last policy is better than the first for sure.")
    ] = False,
    figure: Annotated[Path | None, typer.Option(help="With --policy: where to save a figure (.png).")] = None,
    arm: Arm = "arm",
    reward: Reward = None,
    propensity: Annotated[
        str, typer.Option(help="Its column; empty (not with --policy): arms were drawn evenly.")
    ] = "propensity",
    context: Annotated[
        str, typer.Option(help="Columns of the context, with commas; empty: context, or all others.")
    ] = "",
    at: At = "at",
    scheduler: Scheduler = None,
    jobs: Jobs = None,
    bad: Bad = "refuse",
    work: Annotated[
        Path | None,
        typer.Option(help="With --policy: a folder for finished partitions, seen by all workers of a cluster."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What other policies would earn, told from a log: IPS, SNIPS, direct, doubly robust, with intervals.

    With --policy the log may have any length: it is read in parts, on this machine or a dask cluster.

    \b
    Examples:
      kinbandits evaluate log.csv --arm item --reward clicked --propensity p
      kinbandits evaluate news.sqlite3 other.toml --train 0.3 --json
      kinbandits evaluate rows/ --policy live.policy --policy tonight.policy --since 2026-11-15 --gate
    """
    from dataclasses import asdict

    if policy is None:
        found, left_out = _in_memory(log, config, 0.5 if train is None else train, arm, reward, propensity, context)
        if as_json:
            print_json({**asdict(found), "left_out": left_out})
        else:
            print(found)
            _print_left_out(left_out, "decisions")
        return
    need("evaluate --policy", "dask", "dask", "pyarrow")
    from kinbandits.bulk import Columns
    from kinbandits.bulk import evaluate as compare
    from kinbandits.bulk.table import seconds

    names = [p.stem for p in policy]
    names = names if len(set(names)) == len(names) else list(map(str, policy))
    with _files([log]) as files:
        result = compare(
            files,
            {name: _read_policy(path) for name, path in zip(names, policy, strict=True)},
            columns=Columns(arm, reward, tuple((context or "context").split(",")), propensity, at),
            since=seconds(since) if since else None,
            train=train,
            clip=clip,
            bad=bad,
            scheduler=scheduler,
            jobs=jobs,
            work=work,
        )
    if figure is not None:
        from kinbandits.plotting import save_figure

        save_figure(result.plot(), figure.with_suffix(""), [figure.suffix.removeprefix(".") or "png"])
    if as_json:
        print_json({"policies": {k: asdict(e) for k, e in result.evaluations.items()}, "left_out": result.left_out})
    else:
        _print_comparison(result)
    if gate and not result.better:
        raise typer.Exit(3)


def _print_comparison(result: Comparison) -> None:
    lines = []
    for name, found in result.evaluations.items():
        for e in [*found.estimates.values(), *([] if found.difference is None else [found.difference])]:
            size = [f"{found.effective_n:,.0f}", f"{found.largest_weight:.1f}", f"{found.clipped:,}"]
            lines.append([name, e.name, f"{e.value:.4f}", f"{e.low:.4f} .. {e.high:.4f}", *size])
    one = next(iter(result.evaluations.values()))
    title = f"Reward a round, told from {one.n:,} rows (their mean is {one.logged:.4f})"
    columns = ["policy", "estimator", "value", "95 % interval", "effective rows", "largest weight", "clipped"]
    print_table(title, columns, lines, right=(2, 4, 5, 6))
    for name, found in result.evaluations.items():
        for warning in found.warnings:
            print(f"Warning: {name}: {warning}")
    _print_left_out(result.left_out)


def _print_left_out(left_out: dict[str, int], what: str = "rows") -> None:
    for why, n in left_out.items():
        print(f"Left out: {n:,} {what}, {why}")


def _read_policy(path: Path) -> KMTLUCB:
    from kinbandits.policies import load
    from kinbandits.service.config import load_settings

    found: KMTLUCB = load_settings(path).new_policy() if path.suffix == ".toml" else load(path)
    return found


@contextlib.contextmanager
def _files(logs: list[str]) -> Iterator[list[str]]:
    """The logs as Parquet: that of a service is exported to a temporary folder."""
    stores = [log for log in logs if "://" in log or log.endswith((".sqlite3", ".sqlite", ".db"))]
    if not stores:
        yield logs
        return
    from kinbandits.service.store import open_store
    from kinbandits.service.transfer import export_log

    with tempfile.TemporaryDirectory(prefix="kinbandits-") as folder:
        for i, url in enumerate(stores):
            store = open_store(url, readonly=True)
            try:
                export_log(store, Path(folder) / f"log-{i:03}")
            finally:
                store.close()
        yield [*(log for log in logs if log not in stores), folder]


def _in_memory(
    log: str, config: Path | None, train: float, arm: str, reward: str | None, propensity: str, context: str
) -> tuple[Evaluation, dict[str, int]]:
    from dataclasses import replace
    from functools import partial

    from kinbandits._frames import is_table, read_table
    from kinbandits.ope import LoggedRounds, evaluate_policy
    from kinbandits.policies import KMTLUCB
    from kinbandits.service.config import load_settings
    from kinbandits.service.store import open_store
    from kinbandits.service.transfer import Logged, logged_rounds, policy_for

    if is_table(log):
        rounds = LoggedRounds.from_frame(
            read_table(log).to_native(),
            arm=arm,
            reward=reward or "reward",
            propensity=propensity or None,
            contexts=context.split(",") if context else None,
        )
        logged = Logged(rounds, {})
    else:
        store = open_store(log, readonly=True)
        try:
            logged = logged_rounds(store)
        finally:
            store.close()
    if config is None and not is_table(log):
        raise InvalidInputError("which policy? Name its TOML file: kinbandits evaluate LOG POLICY.toml")
    settings = None if config is None else load_settings(config)
    limits = None if settings is None else settings.new_policy().reward_range
    make = (
        partial(KMTLUCB, list(logged.rounds.candidates[0]))
        if settings is None
        else partial(policy_for, settings, logged.rounds)
    )
    found = evaluate_policy(logged.rounds, make, train=train, reward_range=limits)
    return replace(found, warnings=(*logged.warnings, *found.warnings)), logged.left_out
