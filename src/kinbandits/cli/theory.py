"""``kinbandits theory``: the bounds, and runs beside them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from kinbandits.cli.output import print_json, print_table
from kinbandits.progress import Progress, clock


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(theory)


def theory(
    out: Annotated[Path, typer.Option(help="Directory for the page and its figures.")] = Path("theory"),
    horizon: Annotated[int, typer.Option(help="Rounds of the long runs.", min=20)] = 600,
    seeds: Annotated[int, typer.Option(help="Runs of each.", min=1)] = 4,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
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
