"""``kinbandits demo``: the main job, small."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinbandits.cli.output import print_json, print_table
from kinbandits.errors import MissingPackageError
from kinbandits.progress import Progress, clock

if TYPE_CHECKING:
    from kinbandits.environments import Environment
    from kinbandits.trace import Trace

PROBLEMS = {
    "synthetic": ("KMTL-UCB", "KMTL-UCB-Est", "Kernel-UCB-Ind", "Kernel-UCB-Pool"),
    "digits": ("KMTL-UCB-Est", "Kernel-UCB-Ind"),
}
"""What is played: problems, and methods on each."""


@dataclass(frozen=True)
class Cell:
    """One run: a problem, a method, a seed."""

    problem: str
    method: str
    seed: int

    def environment(self) -> Environment:
        """The game; the same for every method."""
        from kinbandits.environments import Classification, SyntheticNews

        if self.problem == "synthetic":
            return SyntheticNews(seed=self.seed)
        return Classification(self.problem, protocol="paper", seed=self.seed)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    seeds: Annotated[int, typer.Option(help="Runs of each method, on different streams.", min=1)] = 3,
    horizon: Annotated[int | None, typer.Option(help="Rounds of each run (default: all).", min=1)] = None,
    jobs: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    out: Annotated[Path, typer.Option(help="Directory for the figure.")] = Path("report"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Play the paper's methods on its synthetic news problem and on handwritten digits.

    Four methods on the first, two on the second, at the published settings, every method on the same streams.
    Prints a table of regret and draws the curves. Needs no network.

    \b
    Examples:
      kinbandits demo
      kinbandits demo --seeds 10 --out results
      kinbandits demo --seeds 1 --horizon 200 --json
    """
    from kinbandits.presets import paper_settings  # noqa: F401 (an error of installation shows before the work)

    _needs("sklearn", "matplotlib")
    cells = [Cell(p, m, s) for p, methods in PROBLEMS.items() for s in range(seeds) for m in methods]
    started = time.monotonic()
    traces: dict[Cell, Trace] = {}
    with Progress(len(cells), "demo") as progress:
        for cell, trace in play_cells(cells, horizon, jobs):
            traces[cell] = trace
            progress.advance(note=f"{cell.problem}, {cell.method}, seed {cell.seed}")
    figure = draw({cell: traces[cell] for cell in cells}, out)
    if as_json:
        runs = [asdict(c) | {"regret": traces[c].final_regret, "rounds": len(traces[c])} for c in cells]
        print_json({"runs": runs, "figure": str(figure)})
        return
    for problem, methods in PROBLEMS.items():
        rows = [
            table_row(method, [traces[c] for c in cells if (c.problem, c.method) == (problem, method)])
            for method in methods
        ]
        rounds = len(traces[next(c for c in cells if c.problem == problem)])
        print_table(
            f"Regret on {problem} after {rounds} rounds (smaller is better)",
            ["method", "mean", "sd", "per seed", "ms a round"],
            rows,
            right=(1, 2, 3, 4),
        )
        print()
    print(f"Figure: {figure}")
    print(f"Done in {clock(time.monotonic() - started)}.")


def play_cells(cells: list[Cell], horizon: int | None, jobs: int) -> Iterator[tuple[Cell, Trace]]:
    """Play every cell, in processes, each as it is finished."""
    from joblib import Parallel, delayed

    runs = Parallel(n_jobs=min(jobs, len(cells)), return_as="generator_unordered")(
        delayed(play_cell)(cell, horizon) for cell in cells
    )
    yield from runs


def play_cell(cell: Cell, horizon: int | None) -> tuple[Cell, Trace]:
    """Play one cell, with one BLAS thread: processes share the cores, and the bits do not depend on them."""
    from threadpoolctl import threadpool_limits

    from kinbandits import KMTLUCB, simulate
    from kinbandits.presets import paper_settings

    environment = cell.environment()
    settings = paper_settings(cell.problem, cell.method)
    rounds = None if horizon is None else min(horizon, environment.horizon)
    with threadpool_limits(1):
        return cell, simulate(KMTLUCB(environment.arms, **settings), environment, rounds)


def table_row(method: str, traces: list[Trace]) -> list[str]:
    """One line of the table."""
    import numpy as np

    regrets = [trace.final_regret for trace in traces]
    spread = f"{np.std(regrets, ddof=1):.1f}" if len(regrets) > 1 else "-"
    per_round = 1000 * np.mean([trace["seconds"].mean() for trace in traces])
    return [method, f"{np.mean(regrets):.1f}", spread, " ".join(f"{r:.0f}" for r in regrets), f"{per_round:.1f}"]


COLOURS = {
    "KMTL-UCB": "#0072B2",
    "KMTL-UCB-Est": "#D55E00",
    "Kernel-UCB-Ind": "#009E73",
    "Kernel-UCB-Pool": "#CC79A7",
}  # Okabe and Ito: told apart by the colour-blind


def draw(traces: dict[Cell, Trace], out: Path) -> Path:
    """Mean cumulative regret of each method, with the range over seeds, one panel per problem."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(PROBLEMS), squeeze=False)[0]
    for ax, (problem, methods) in zip(axes, PROBLEMS.items(), strict=True):
        for method in methods:
            curves: Any = [
                t.cumulative_regret for c, t in traces.items() if (c.problem, c.method) == (problem, method)
            ]
            curves = np.array(curves)
            t = np.arange(1, curves.shape[1] + 1)
            ax.plot(t, curves.mean(axis=0), color=COLOURS[method], label=method)
            ax.fill_between(t, curves.min(axis=0), curves.max(axis=0), color=COLOURS[method], alpha=0.15, lw=0)
        title = "Synthetic news" if problem == "synthetic" else problem.capitalize()
        ax.set(title=f"{title} (mean and range of {len(curves)} runs)", xlabel="round", ylabel="cumulative regret")
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "demo.png"
    figure.savefig(path, dpi=150)
    return path


def _needs(*modules: str) -> None:
    from importlib.util import find_spec

    for module in modules:
        if find_spec(module) is None:
            raise MissingPackageError(f"the demo needs {module}; install it with: pip install 'kinbandits[demo]'")
