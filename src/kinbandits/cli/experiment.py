"""``kinbandits demo``, ``run``, ``report``, ``paper`` and ``theory``: experiments and what comes of them."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinbandits.cli.output import Json, need, print_json, print_table
from kinbandits.progress import Progress, clock

if TYPE_CHECKING:
    from kinbandits.experiments import Experiment


def _complete_data(incomplete: str) -> list[str]:
    from kinbandits.paper.protocol import DATA

    before, _, last = incomplete.rpartition(",")
    return [f"{before},{name}" if before else name for name in DATA if name.startswith(last)]


Jobs = Annotated[int, typer.Option(help="Cells at a time; -1 is all processors.")]
Backend = Annotated[str, typer.Option(help="loky (this machine), dask or ray.")]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a dask scheduler or ray cluster; without it a local one is started.")
]
Out = Annotated[Path | None, typer.Option(help="Directory of results (default: under runs/).")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (demo, run, report, paper, theory):
        app.command()(command)


def demo(
    seeds: Annotated[int, typer.Option(help="Shops that are played, each by every policy.", min=1)] = 6,
    horizon: Annotated[int | None, typer.Option(help="Customers of each shop (default: 1,000).", min=40)] = None,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    out: Annotated[Path, typer.Option(help="Directory of the report.")] = Path("report"),
    as_json: Json = False,
) -> None:
    """Run a shop with many related items, some of them new, and noisy clicks.

    Four policies meet the same customers: one that knows which items are alike, the default, independent arms and
    Lin-UCB. Prints clicks and regret, who lent what, and what exactness costs; writes a page with figures.

    \b
    Examples:
      kinbandits demo
      kinbandits demo --seeds 10 --out results
      kinbandits demo --seeds 1 --horizon 200 --json
    """
    need("the demo", "demo", "matplotlib", "jinja2")
    from kinbandits.report.story import NEXT, POLICIES, tell

    started = time.monotonic()
    with Progress(seeds * len(POLICIES), "runs", stream=sys.stderr) as bar:
        story = tell(seeds, horizon, jobs, lambda done, _: bar.to(done))
    page = story.write(out, command_line())
    if as_json:
        names = ("policy", "clicks", "less", "regret", "interval")
        table = [dict(zip(names, row, strict=True)) for row in story.table]
        print_json({"answer": story.answer, "table": table, "exact": story.exact, "again": story.again})
        return
    print(f"\n{story.answer}\n")
    print_table("Clicks and regret (expected clicks missed)", story.columns, story.table, (1, 2, 3, 4))
    print(f"\nWho lent what\n{story.lent}\n\nWhat it costs\n{story.cost}")
    print(f"\nFigures: {page}   The paper: {NEXT}   Done in {clock(time.monotonic() - started)}.")


def run(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file.")],
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is there.")] = False,
    jobs: Jobs = -1,
    backend: Backend = "loky",
    scheduler: Scheduler = None,
    make_report: Annotated[bool, typer.Option("--report/--no-report", help="Make the report at the end.")] = True,
    as_json: Json = False,
) -> None:
    """Run an experiment: every environment, method and seed that the file names.

    Each finished run is on disk before it counts, so a crash costs at most the runs that were under way; go on
    with --resume. The same results come out of every backend.

    \b
    Examples:
      kinbandits run news.toml
      kinbandits run news.toml --resume --jobs 2
      kinbandits run news.toml --backend dask --scheduler tcp://head:8786 --out /shared/news
    """
    from kinbandits.experiments import load_experiment

    directory = out if out is not None else Path("runs") / file.stem
    if make_report:
        need("the report (or --no-report)", "plot", "matplotlib", "jinja2")
    experiment = load_experiment(file)
    _run(experiment, directory, resume=resume, jobs=jobs, backend_name=backend, scheduler=scheduler)
    _present(experiment.name, directory, None if make_report else "", as_json)


def report(
    directory: Annotated[Path, typer.Argument(help="Directory of an experiment's results.")],
    out: Annotated[Path | None, typer.Option(help="Where the page goes (default: DIRECTORY/report).")] = None,
    as_json: Json = False,
) -> None:
    """Make the report: one HTML page that opens offline, and figures as PNG, SVG and PDF.

    Regret curves with 95 % bands, tables, paired tests, similarity matrices, settings, versions and times. It
    covers what is finished, so it may be made while an experiment is running.

    \b
    Examples:
      kinbandits report runs/news
      kinbandits report runs/news --out docs/news --json
    """
    from kinbandits.experiments import CellStore

    _present(CellStore(directory).record()["record"]["name"], directory, out, as_json)


def paper(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="3 seeds; without --data on Synthetic, Digits, and Segment if it is here."),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(help="Data sets, separated by commas (default: all).", autocompletion=_complete_data),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Runs of each method (default: 10, synthetic 50).", min=1)
    ] = None,
    settings: Annotated[
        str, typer.Option(help="paper: as published; tuned: this library's; cv: chosen by cross-validation first.")
    ] = "paper",
    streams: Annotated[
        Path | None, typer.Option(help="A file of row numbers (.npz), to compare run by run with others.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Rounds of each run (default: the paper's).", min=1)] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep/--no-sweep", help="Controls, and other exploration (with paper settings).")
    ] = True,
    bounds: Annotated[bool, typer.Option("--theory/--no-theory", help="The page on the bounds.")] = True,
    out: Out = None,
    jobs: Jobs = -1,
    backend: Backend = "loky",
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Reproduce the paper's experiments, and make the report. Says first how long it will take.

    The report checks the claims one by one, with controls: counts in place of the estimated similarity, and other
    exploration. Run it again to go on where it stopped.

    \b
    Examples:
      kinbandits paper --quick
      kinbandits paper --quick --data digits
      kinbandits paper --data digits,segment --seeds 5
      kinbandits paper --streams docs/paper/streams.npz
      kinbandits paper --settings tuned
    """
    from joblib import cpu_count

    from kinbandits.paper import protocol as p
    from kinbandits.paper.report import SWEEP
    from kinbandits.paper.theory_page import write_theory
    from kinbandits.paper.theory_runs import Size

    need("the report", "plot", "matplotlib", "jinja2")
    asked = None if data is None else [d.strip() for d in data.split(",")]
    names = p.quick_names(say) if quick and asked is None else p.check_names(asked)
    p.need_data(names)
    runs = seeds if seeds is not None else (3 if quick else None)
    directory = out if out is not None else Path("runs") / _paper_name(settings, names, quick, streams)
    cores = jobs if jobs > 0 else cpu_count()
    chosen = p.cached_choices(names, directory, streams=streams, n_jobs=jobs, say=say) if settings == "cv" else None
    experiment = p.paper_experiment(
        names, seeds=runs, settings=settings, streams=streams, horizon=horizon, chosen=chosen
    )
    parts = {"experiment": experiment}
    if sweep and settings == "paper":
        parts[SWEEP] = p.sweep_experiment(names, seeds=runs, streams=streams, horizon=horizon)
    say(p.time_estimate(parts.values(), names, cores, settings))
    options = {"resume": True, "jobs": jobs, "backend_name": backend, "scheduler": scheduler}
    for name, part in parts.items():
        _run(part, directory, name=name, **options)
    if bounds:
        size = Size(min(600, horizon or 600), 1 if quick else 4, max(1, cores))
        say(f"Theory: {write_theory(directory / 'theory', size, command=command_line())[0]}")
    _present(experiment.name, directory, None, as_json)


def theory(
    out: Annotated[Path, typer.Option(help="Directory for the page and its figures.")] = Path("theory"),
    horizon: Annotated[int, typer.Option(help="Rounds of the long runs.", min=20)] = 600,
    seeds: Annotated[int, typer.Option(help="Runs of each.", min=1)] = 4,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    as_json: Json = False,
) -> None:
    """Draw the paper's bounds, and real runs beside them.

    Writes a page with six figures: log g and the regret bound against the similarity of arms; log g, ranks and
    bounds along a run; regret of SupKMTL-UCB and KMTL-UCB under Theorem 1's bound; widths between their bounds;
    regret against similarity, with and without sharing; what a wrong similarity costs. Needs no network.

    \b
    Examples:
      kinbandits theory
      kinbandits theory --horizon 2000 --seeds 10 --out theory-long
      kinbandits theory --horizon 100 --seeds 1 --json
    """
    from kinbandits.paper.theory_page import STEPS, shown, write_theory
    from kinbandits.paper.theory_runs import Size

    started = time.monotonic()
    command = f"kinbandits theory --horizon {horizon} --seeds {seeds}"
    with Progress(len(STEPS), "theory") as progress:
        size = Size(horizon, seeds, jobs)
        page, numbers = write_theory(out, size, command=command, done=lambda step: progress.advance(note=step))
    if as_json:
        print_json({"numbers": numbers, "page": str(page)})
        return
    rows = [[name, shown(value)] for name, value in numbers.items()]
    print_table("The theory, checked", ["what", "value"], rows, right=(1,))
    print(f"\nPage: {page}\nDone in {clock(time.monotonic() - started)}.")


def _paper_name(settings: str, names: tuple[str, ...], quick: bool, streams: Path | None) -> str:
    from kinbandits.paper.protocol import DATA, QUICK

    all_of_it = QUICK if quick else DATA
    which = "" if names == all_of_it else "-" + "-".join(names)
    return f"paper-{settings}{'-quick' if quick else ''}{which}{'-streams' if streams else ''}"


def say(text: str) -> None:
    """To people, beside the results on standard output."""
    print(text, file=sys.stderr, flush=True)


def _run(experiment: Experiment, directory: Path, **options: Any) -> None:
    from kinbandits.experiments import CellStore, run_experiment

    try:
        run_experiment(experiment, directory, stream=sys.stderr, **options)
    except KeyboardInterrupt:
        cells = experiment.cells()
        done = len({c.id for c in cells} & CellStore(directory).done())
        say(f"\nStopped. {done} of {len(cells)} runs are finished and kept in {directory}; to go on: {_again()}")
        raise typer.Exit(130) from None
    (directory / "command.txt").write_text(command_line() + "\n", encoding="utf-8")


def _again() -> str:
    """The command that goes on with this one: `paper` always does, `run` when told."""
    typed = command_line()
    return typed if "--resume" in typed or sys.argv[1:2] != ["run"] else f"{typed} --resume"


def command_line() -> str:
    """The command as it was typed, to be shown in the report."""
    return shlex.join(["kinbandits", *sys.argv[1:]])


def _present(name: str, directory: Path, out: Path | str | None, as_json: bool) -> None:
    """The report, and its tables in the terminal, or all of it as JSON."""
    from kinbandits.paper.report import write_paper_report

    if out == "":
        print(directory / "results.csv")
        return
    typed = directory / "command.txt"  # the command that made the runs, whichever makes the report
    command = typed.read_text(encoding="utf-8").strip() if typed.exists() else ""
    made = write_paper_report(directory, out or None, command=command)
    if as_json:
        found: dict[str, Any] = {"name": name, "directory": str(directory), "report": str(made.page)}
        found["summaries"] = [s.__dict__ for s in made.summaries]
        found["comparisons"] = [c.__dict__ for c in made.comparisons]
        print_json(found | {section.name: list(section.records) for section in made.extra if section.records})
        return
    rows = []
    for s in made.summaries:
        mean = f"{s.mean:.4g} ± {s.sd:.2g}" if len(s.finals) > 1 else f"{s.mean:.4g}"
        best, seconds = f"{s.best} of {len(s.finals)}", f"{s.seconds:.3g}"
        rows.append([s.environment, s.method, str(s.rounds), mean, best, seconds])
    metric = " / ".join(dict.fromkeys(s.metric for s in made.summaries))
    columns = ["environment", "method", "rounds", "mean ± sd", "best in", "seconds per run"]
    print_table(f"{name}: {metric}, mean ± sd over seeds", columns, rows, right=(2, 3, 4, 5))
    for section in made.extra:
        if section.name in ("claims", "sweep"):
            shown = [i for i in range(len(section.columns)) if i not in section.small]
            columns, *rows = ([row[i] for i in shown] for row in (section.columns, *section.rows))
            right = [k for k, i in enumerate(shown) if i in section.right]
            print_table(f"\n{section.title}", columns, rows, right)
    print(f"\nReport: {made.page}")
