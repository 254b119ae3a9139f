"""``kinbandits demo``: the main job, small."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from kinbandits.cli.experiment import command_line, present_report
from kinbandits.cli.output import need
from kinbandits.progress import clock

PROBLEMS = ("synthetic", "digits")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    seeds: Annotated[int, typer.Option(help="Runs of each method, on different streams.", min=1)] = 3,
    horizon: Annotated[int | None, typer.Option(help="Rounds of each run (default: all).", min=1)] = None,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    out: Annotated[Path, typer.Option(help="Directory of the report.")] = Path("report"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Play the paper's methods on its synthetic news problem and on handwritten digits.

    Four methods on the first, two on the second, at the published settings, every method on the same streams.
    Prints a table of regret and writes a report with the curves. Needs no network.

    \b
    Examples:
      kinbandits demo
      kinbandits demo --seeds 10 --out results
      kinbandits demo --seeds 1 --horizon 200 --json
    """
    need("the demo", "demo", "sklearn", "matplotlib", "jinja2")
    from kinbandits.experiments import run_experiment
    from kinbandits.paper.protocol import paper_experiment
    from kinbandits.paper.report import write_paper_report

    started = time.monotonic()
    experiment = paper_experiment(PROBLEMS, seeds=seeds, horizon=horizon, name="Demo")
    with tempfile.TemporaryDirectory(prefix="kinbandits-demo-") as directory:
        run_experiment(experiment, directory, jobs=jobs, stream=sys.stderr)
        made = write_paper_report(directory, out, command=command_line())
    present_report(experiment.name, out, made, as_json)
    if not as_json:
        print(f"Done in {clock(time.monotonic() - started)}.")
