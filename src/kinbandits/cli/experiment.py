"""``kinbandits run``, ``report`` and ``paper``: experiments and what comes of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinbandits._html import text_table
from kinbandits._value import one_of
from kinbandits.cli.output import Jobs, Json, command_line, need, print_json

if TYPE_CHECKING:
    from kinbandits.experiments import Experiment
    from kinbandits.report import Report

Out = Annotated[Path | None, typer.Option(help="Directory for the results (default: under runs/).")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (run, report, paper):
        app.command()(command)


def run(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file.")],
    out: Out = None,
    jobs: Jobs = -1,
    make_report: Annotated[bool, typer.Option("--report/--no-report", help="Make the report at the end.")] = True,
    as_json: Json = False,
) -> None:
    """Run an experiment that a TOML file describes.

    Every environment, method and seed of the file is one run. A finished run is saved and not done again: run the
    same command to go on after a crash, or after you have added seeds, methods or environments to the file.

    \b
    Examples:
      kinbandits run news.toml
      kinbandits run news.toml --jobs 2 --out runs/news
    """
    from kinbandits.experiments import load_experiment
    from kinbandits.report import write_report

    if make_report:
        need("the report (or --no-report)", "plot", "matplotlib", "jinja2")
    directory = out or Path("runs") / file.stem
    experiment = load_experiment(file)
    _run(experiment, directory, jobs)
    if make_report:
        _present(experiment.name, directory, write_report(directory, command=command_line()), as_json)
    elif as_json:
        print_json({"name": experiment.name, "directory": str(directory), "results": str(directory / "results.csv")})
    else:
        print(directory / "results.csv")


def report(
    directory: Annotated[Path, typer.Argument(help="Directory of an experiment's results.")],
    out: Annotated[Path | None, typer.Option(help="Directory for the page (default: DIRECTORY/report).")] = None,
    as_json: Json = False,
) -> None:
    """Make the report of an experiment: one HTML page.

    Regret curves with 95 % bands, tables, paired tests, similarity matrices, settings, versions and times; of the
    paper's experiments also its claims. It covers what is finished, also while an experiment is running.

    \b
    Examples:
      kinbandits report runs/news
      kinbandits report runs/news --out docs/news --json
    """
    need("the report", "plot", "matplotlib", "jinja2")
    from kinbandits.experiments import CellStore
    from kinbandits.paper.report import write_paper_report

    name = CellStore(directory).record()["record"]["name"]
    typed = directory / "command.txt"  # the command that made the runs
    command = typed.read_text(encoding="utf-8").strip() if typed.exists() else ""
    _present(name, directory, write_paper_report(directory, out, command=command), as_json)


def paper(
    quick: Annotated[
        bool, typer.Option("--quick", help="3 runs of each method, on Synthetic, Digits, and Segment if it is here.")
    ] = False,
    data: Annotated[str | None, typer.Option(help="Data sets, separated by commas (default: all).")] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of each method (default: 10, synthetic 50).", min=1)] = None,
    settings: Annotated[str, typer.Option(help="paper: as published; cv: cross-validated first.")] = "paper",
    streams: Annotated[
        Path | None, typer.Option(help="A file of row numbers (.npz), to compare run by run with others.")
    ] = None,
    out: Out = None,
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Reproduce the paper's experiments and check its claims.

    Run the same command again to go on where it stopped, cross-validation too.

    \b
    Examples:
      kinbandits paper --quick
      kinbandits paper --data digits,segment --seeds 5
      kinbandits paper --streams docs/paper/streams.npz
      kinbandits paper --settings cv
    """
    need("the report", "plot", "matplotlib", "jinja2")
    one_of("--settings", settings, "paper", "cv")
    from kinbandits.paper import protocol
    from kinbandits.paper.report import write_paper_report

    if data is None and quick:
        names = tuple(n for n in protocol.QUICK if protocol.is_here(n))
        for name in set(protocol.QUICK) - set(names):
            how = f"to have it: kinbandits data {name}"
            print(f"{name} is left out: it is not on this machine; {how}", file=sys.stderr)
    else:
        names = protocol.check_names(None if data is None else data.split(","))
    protocol.need_data(names)
    kind = f"paper-{settings}{'-quick' if quick else ''}{'-streams' if streams else ''}"
    directory = out or Path("runs") / (kind if data is None else f"{kind}-{'-'.join(names)}")
    chosen = None
    if settings == "cv":
        folder = directory / "settings"
        chosen = protocol.choose_settings(names, streams=streams, jobs=jobs, folder=folder, stream=sys.stderr)
    count = seeds or (3 if quick else None)
    experiment = protocol.paper_experiment(names, seeds=count, streams=streams, chosen=chosen)
    _run(experiment, directory, jobs)
    _present(experiment.name, directory, write_paper_report(directory, command=command_line()), as_json)


def _run(experiment: Experiment, directory: Path, jobs: int) -> None:
    from kinbandits.experiments import CellStore, run_experiment

    try:
        run_experiment(experiment, directory, jobs=jobs, stream=sys.stderr)
    except KeyboardInterrupt:
        cells = {c.id for c in experiment.cells()}
        done = len(cells & CellStore(directory).done())
        text = f"{done} of {len(cells)} runs are finished and kept in {directory}; to go on: {command_line()}"
        print(f"\nStopped. {text}", file=sys.stderr, flush=True)
        raise typer.Exit(130) from None
    (directory / "command.txt").write_text(command_line() + "\n", encoding="utf-8")


def _present(name: str, directory: Path, made: Report, as_json: bool) -> None:
    """The tables of a report in the terminal, or all of it as JSON."""
    if as_json:
        found: dict[str, Any] = {"name": name, "directory": str(directory), "report": str(made.page)}
        found["summaries"] = [s.__dict__ for s in made.summaries]
        found["comparisons"] = [c.__dict__ for c in made.comparisons]
        print_json(found | {section.name: list(section.records) for section in made.extra if section.records})
        return
    rows = []
    for s in made.summaries:
        mean = f"{s.mean:.4g} ± {s.sd:.2g}" if len(s.finals) > 1 else f"{s.mean:.4g}"
        rows.append([s.environment, s.method, str(s.rounds), mean, f"{s.best} of {len(s.finals)}", f"{s.seconds:.3g}"])
    metric = " / ".join(dict.fromkeys(s.metric for s in made.summaries))
    columns = ["environment", "method", "rounds", "mean ± sd", "best in", "seconds"]
    print(text_table(f"{name}: {metric}, mean ± sd over seeds, seconds of a run", columns, rows, (2, 3, 4, 5)))
    for section in made.extra:
        if section.records:
            shown = [i for i in range(len(section.columns)) if i not in section.small]
            columns, *rows = ([row[i] for i in shown] for row in (section.columns, *section.rows))
            right = [k for k, i in enumerate(shown) if i in section.right]
            print(text_table(f"\n{section.title}", columns, rows, right))
    print(f"\nReport: {made.page}")
