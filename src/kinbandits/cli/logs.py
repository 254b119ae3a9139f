"""``kinbandits fit`` and ``evaluate``: fit and evaluate policies on logs of any size."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from kinbandits.cli.output import Json, need, print_json
from kinbandits.errors import InvalidInputError, LogWarning

_TIME = "a date (2026-11-15, UTC), a time, or seconds since 1970."
Logs = Annotated[list[str], typer.Argument(help="Parquet or CSV files, folders of them; or the store of a service.")]
Jobs = Annotated[int, typer.Option(help="Processes; -1 is all processors.")]
Bad = Annotated[str, typer.Option(help="What to do with bad rows: refuse or skip.")]
Arm = Annotated[str, typer.Option(help="Column of the arm.")]
Reward = Annotated[
    str | None, typer.Option(help="Column of the reward.", show_default="learned if there is one, else reward")
]
Context = Annotated[
    str, typer.Option(help="Columns of the context, with commas.", show_default="context, or all others")
]
Propensity = Annotated[str, typer.Option(help="Column of the propensity; empty: arms were drawn evenly.")]
At = Annotated[str, typer.Option(help="Column of the time: dates and times, or seconds since 1970.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(fit)
    app.command()(evaluate)


def fit(
    logs: Logs,
    policy: Annotated[Path, typer.Option(help="TOML file with a [policy]; or a fitted policy, to add rows to.")],
    out: Annotated[Path, typer.Option(help="Where to save the policy; kb.load and serve --start read it.")],
    since: Annotated[str, typer.Option(help=f"Leave out earlier rows: {_TIME}")] = "",
    until: Annotated[str, typer.Option(help="Leave out rows of this time and later.")] = "",
    arm: Arm = "arm",
    reward: Reward = None,
    propensity: Propensity = "propensity",
    context: Context = "",
    at: At = "at",
    bad: Bad = "refuse",
    jobs: Jobs = -1,
) -> None:
    """Fit a policy to logs of any size, and save it.

    If interrupted, run the same command again to resume (state is in OUT.work).

    \b
    Examples:
      kinbandits fit clicks.csv --policy shop.toml --out shop.policy --arm item --reward clicked --context age,hour
      kinbandits fit rows/ --policy news.toml --out start.policy
      kinbandits fit news.sqlite3 --policy start.policy --since 2026-11-15 --out tonight.policy
    """
    from kinbandits.fit import fitted

    with _source(logs, arm, reward, context, propensity or None, at) as source:
        start, end, work = _seconds("--since", since), _seconds("--until", until), out.with_name(out.name + ".work")
        done = fitted(source, _read_policy(policy), since=start, until=end, bad=bad, jobs=jobs, work=work)
    done.policy.save(out)
    print(f"{done.rows:,} rows learned, {done.policy.n_observations:,} in all. Saved as {out}")
    for why, n in done.left_out.items():
        print(f"Left out: {n:,} rows, {why}")


def evaluate(
    logs: Logs,
    policy: Annotated[
        list[Path] | None,
        typer.Option(help="A TOML file or a saved policy; several are compared with the first. None: the default."),
    ] = None,
    train: Annotated[
        float | None,
        typer.Option(help="Which part of the log, from its start, teaches policies of TOML files (default: half)."),
    ] = None,
    since: Annotated[str, typer.Option(help=f"Evaluate rows since then, earlier ones teach: {_TIME}")] = "",
    clip: Annotated[float | None, typer.Option(help="The largest weight.")] = None,
    gate: Annotated[
        bool,
        typer.Option(
            "--gate", help="Exit with status 3 unless the interval of last minus first (or the log) is above 0."
        ),
    ] = False,
    figure: Annotated[Path | None, typer.Option(help="Where to save a figure (.png, .svg or .pdf).")] = None,
    arm: Arm = "arm",
    reward: Reward = None,
    propensity: Propensity = "propensity",
    context: Context = "",
    at: At = "at",
    bad: Bad = "refuse",
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Estimate what policies would have earned, from a log: IPS, SNIPS, direct, doubly robust, with intervals.

    \b
    Examples:
      kinbandits evaluate log.csv --arm item --reward clicked --propensity p
      kinbandits evaluate news.sqlite3 --policy other.toml --train 0.3 --json
      kinbandits evaluate rows/ --policy live.policy --policy tonight.policy --since 2026-11-15 --gate
    """
    from kinbandits.ope import evaluate as compare
    from kinbandits.policy import KMTLUCB

    if figure is not None:
        need("a figure", "plot", "matplotlib")
    paths = policy or []
    names = [p.stem for p in paths] if len({p.stem for p in paths}) == len(paths) else list(map(str, paths))
    if len(set(names)) < len(names):
        raise InvalidInputError("a policy is named twice; a comparison needs two different ones")
    with _source(logs, arm, reward, context, propensity or None, at) as source:
        policies = {name: _read_policy(path) for name, path in zip(names, paths, strict=True)}
        policies = policies or {"default": KMTLUCB(source.arms())}
        start = _seconds("--since", since)
        result = compare(source, policies, train=train, since=start, clip=clip, bad=bad, jobs=jobs)
    if figure is not None:
        from kinbandits.plotting import save_figure

        save_figure(result.plot(), figure if figure.suffix else figure.with_suffix(".png"))
    if as_json:
        print_json(result.to_json())
    else:
        print(result)
    if gate and not result.better:
        raise typer.Exit(3)


def _seconds(option: str, time: str) -> float | None:
    from kinbandits.log_rows import seconds

    return seconds(time, option) if time else None


def _read_policy(path: Path) -> Any:
    from kinbandits.policy import load
    from kinbandits.service.config import load_settings

    return load_settings(path).new_policy() if path.suffix == ".toml" else load(path)


@contextlib.contextmanager
def _source(
    logs: list[str], arm: str, reward: str | None, context: str, propensity: str | None, at: str
) -> Iterator[Any]:
    """The logs as files: that of a service is exported to a temporary folder."""
    from kinbandits.logs import Columns, LogFiles

    columns = Columns(arm, reward, tuple(context.split(",")) if context else None, propensity, at)
    stores = [log for log in logs if "://" in log or log.endswith((".sqlite3", ".sqlite", ".db"))]
    if stores and len(stores) < len(logs):
        raise InvalidInputError("give either files or stores of services, not both")
    with tempfile.TemporaryDirectory(prefix="kinbandits-") as folder:
        if stores:
            need("the log of a service", "serve", "pyarrow", "sqlalchemy")
        for i, url in enumerate(stores):
            from kinbandits.service.store import open_store
            from kinbandits.service.transfer import export_log, missing_rewards

            with contextlib.closing(open_store(url, readonly=True)) as store:
                export_log(store, Path(folder) / f"log-{i:03}.parquet")
                warning = missing_rewards(store)
                if warning is not None:
                    print(f"Warning: {url}: {warning}", file=sys.stderr)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", LogWarning)
            source = LogFiles.of([folder] if stores else logs, columns)
        for one in caught:
            print(f"Warning: {one.message}", file=sys.stderr)
        yield source
