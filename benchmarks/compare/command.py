"""``python benchmarks/compare``: the libraries that one would pick instead, on the same streams."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from kinbandits.cli import run_app
from kinbandits.cli.output import print_json, print_table


def compare(
    quick: Annotated[bool, typer.Option("--quick", help="Digits and one hidden problem, 100 rounds, 2 seeds.")] = False,
    data: Annotated[str | None, typer.Option(help="Problems, separated by commas (default: all).")] = None,
    peers: Annotated[str | None, typer.Option(help="Peers, separated by commas (default: all installed).")] = None,
    ours: Annotated[str | None, typer.Option(help="Our rows: any policy, separated by commas.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of each method (default: 10).", min=1)] = None,
    grid_seeds: Annotated[int, typer.Option(help="Runs on which settings of peers are chosen.", min=1)] = 2,
    grid_size: Annotated[int | None, typer.Option(help="Settings of each peer tried (default: all).", min=1)] = None,
    chosen: Annotated[
        Path | None, typer.Option(help="Settings chosen before (chosen.json): for these no grid is run.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="At most so many rounds.", min=1)] = None,
    streams: Annotated[Path | None, typer.Option(help="A file of row numbers (.npz), as for paper.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of results (default: runs/compare).")] = None,
    page: Annotated[Path | None, typer.Option(help="Where the page goes (default: OUT/comparison.md).")] = None,
    table: Annotated[Path | None, typer.Option("--csv", help="Where every row of every table goes.")] = None,
    recorded: Annotated[
        Path | None, typer.Option(help="Means of earlier runs (recorded.json), for methods not run again.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Write the regret of peers into the file of --recorded.")
    ] = False,
    todo: Annotated[bool, typer.Option("--todo", help="Run nothing; list what is not there yet.")] = False,
    page_only: Annotated[bool, typer.Option("--page-only", help="Run nothing; write what is finished.")] = False,
    first: Annotated[
        bool, typer.Option("--first", help="Play nothing; time the first 50 rounds of these peers.")
    ] = False,
    costs: Annotated[bool, typer.Option("--costs/--no-costs", help="Measure CPU and memory.")] = True,
    jobs: Annotated[int, typer.Option(help="Runs at a time; -1 is all processors.")] = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare with other libraries: regret, paired wins, CPU, memory, and what they do with bad input.

    Run it again to go on where it stopped; problems, peers and seeds may be added. Install the peers with
    pip install 'kinbandits[compare]' (and, with a C compiler, 'kinbandits[compare-build]').

    \b
    Examples:
      python benchmarks/compare --quick
      python benchmarks/compare --data digits,segment --seeds 5
      python benchmarks/compare --ours 'kinbandits default' --peers '' --todo
      python benchmarks/compare --streams docs/paper/streams.npz --csv benchmarks/results/comparison.csv
    """
    from compare.catalogue import PEERS
    from compare.figure import write_figure
    from compare.page import COLUMNS, rows, verdicts, write_csv, write_page
    from compare.plan import CLICKS, DATA, OURS, Plan, check_sequence
    from compare.run import edges_of, missing, read, record, run

    plan = Plan(
        data=check_sequence(data, ("digits", "hidden-0.5") if quick else (*DATA, *CLICKS)),
        peers=check_sequence(peers, tuple(PEERS)),
        ours=check_sequence(ours, OURS),
        seeds=seeds or (2 if quick else 10),
        grid_seeds=1 if quick else grid_seeds,
        grid_size=1 if quick and grid_size is None else grid_size,
        chosen=chosen,
        horizon=horizon or (100 if quick else None),
        streams=streams,
    )
    directory = out or Path("runs") / ("compare-quick" if quick else "compare")
    if todo:
        print_table("To run", ("problem", "method", "seeds"), [[p, m, str(n)] for p, m, n in missing(plan, directory)])
        return
    if not page_only:
        run(plan, directory, jobs=jobs, costs=costs, first=first)
    problems = read(plan, directory, recorded)
    if keep and recorded is not None:
        record(problems, recorded)
    if not problems:
        print("no problem is finished yet: the page will say so", file=sys.stderr)
    target = page or directory / "comparison.md"
    figure = target.with_suffix(".png")
    if problems:
        write_figure(figure, problems)
    command = shlex.join(["python", "benchmarks/compare", *_told(sys.argv[1:])])
    edges = list(edges_of(plan))
    write_page(target, plan, problems, edges, command, figure.name)
    if table is not None:
        write_csv(table, problems)
    if as_json:
        print_json(
            {
                "page": str(target),
                "data": [
                    {
                        "name": p.name,
                        "rounds": p.rounds,
                        "rows": [
                            {
                                "title": x.title,
                                "peer": x.peer,
                                "settings": x.settings,
                                "regret": x.regret.tolist(),
                                "cpu_ms": x.cpu_ms,
                                "megabytes": x.megabytes,
                            }
                            for x in p.rows
                        ],
                    }
                    for p in problems
                ],
                "edges": {name: e.__dict__ for name, e in edges},
            }
        )
        return
    for problem in problems:
        print_table(f"\n{problem.title}, {problem.rounds:,} rounds", COLUMNS, rows(problem), right=(2, 3, 4, 5, 6))
        for verdict in verdicts(problem):
            print(verdict.replace("**", ""))
    print()
    print_table(
        "Bad input",
        ("library", "NaN", "unknown arm", "new arm"),
        [[n, e.nan, e.unknown_arm, e.new_arm] for n, e in edges],
    )
    print(f"\nPage: {target}")


def _told(arguments: Sequence[str]) -> list[str]:
    """The arguments as the page tells them: not where results were kept, nor that nothing was run."""
    kept = [a for a in arguments if a not in ("--page-only", "--keep")]
    return [a for i, a in enumerate(kept) if a != "--out" and (not i or kept[i - 1] != "--out")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit, with errors in plain words as those of ``kinbandits``."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(compare)
    run_app(app, arguments, "python benchmarks/compare")
