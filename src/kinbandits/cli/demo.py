"""``kinbandits demo``: what the library is for, in a minute."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from kinbandits.cli.experiment import command_line
from kinbandits.cli.output import need, print_json, print_table
from kinbandits.progress import Progress, clock


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    seeds: Annotated[int, typer.Option(help="Shops that are played, each by every policy.", min=1)] = 6,
    horizon: Annotated[int | None, typer.Option(help="Customers of each shop (default: 1,000).", min=40)] = None,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    out: Annotated[Path, typer.Option(help="Directory of the report.")] = Path("report"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
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
