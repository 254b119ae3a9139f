"""The figure of the EK-UCB paper (Zenati et al., 2022) with ours beside: regret and CPU time, three shapes.

    python benchmarks/ek_ucb.py --horizon 500 --seeds 2 --figure docs/ek-ucb.png

All but our default are told the actions, and have the paper's kernel: Gaussian of length scale 0.1 over context and
action together; ridge 1, exploration 0.1. Ours are `Known` similarity with that kernel (Kernel-UCB on the exact
engine) and the default, which knows neither actions nor kernel. Prints regret, CPU and the size of the
dictionary; results are kept in a file, and runs found there are not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kinbandits as kb
from line_actions import LineActions

SHAPES = ("bump", "squares", "diagonal")
KERNEL = {"length_scale": 0.1, "arm_length_scale": 0.1, "ridge": 1.0, "exploration": 0.1, "scaling": "raw"}


def _rival(name: str, **knobs: Any) -> Callable[[Any, int], Any]:
    def make(e: Any, seed: int) -> Any:
        sys.path.insert(0, str(Path(__file__).parent))
        from compare import projected

        return getattr(projected, name).for_environment(e, seed=seed, **KERNEL, **knobs)

    return make


def _exact(e: Any, seed: int) -> Any:
    similarity = kb.Known(kb.RBF(0.1), e.descriptors)
    return kb.KMTLUCB(
        e.arms, similarity=similarity, context_kernel=kb.RBF(0.1), ridge=1.0, exploration=0.1, seed=seed
    )


def _sup(e: Any, seed: int) -> Any:
    settings = {"similarity": kb.Known(kb.RBF(0.1), e.descriptors), "context_kernel": kb.RBF(0.1), "ridge": 1.0}
    return kb.baselines.SupKMTLUCB(e.arms, horizon=e.horizon, seed=seed, **settings)


METHODS: dict[str, tuple[Callable[[Any, int], Any], str, str]] = {
    "kinbandits default": (lambda e, seed: kb.KMTLUCB(e.arms, seed=seed), "#0072B2", "-"),
    "kinbandits, kernel given": (_exact, "#56B4E9", "-"),
    "EK-UCB": (_rival("EKUCB", mu=1.0, gamma=1.0), "#009E73", "--"),
    "BKB": (_rival("BKB"), "#D55E00", "--"),
    "batch BKB": (_rival("BatchBKB", C=10.0), "#E69F00", "--"),
    "SupK-UCB": (_sup, "#CC79A7", ":"),
    "Uniform": (lambda e, seed: kb.baselines.Uniform(e.arms, seed=seed), "#999999", ":"),
}


def one(shape: str, method: str, seed: int, horizon: int) -> dict[str, Any]:
    """One game: regret and CPU seconds so far, at fifty points."""
    e = LineActions(shape, seed=seed, horizon=horizon)
    policy = METHODS[method][0](e, seed)
    regret, seconds = [0.0], [0.0]
    for r in e.rounds():
        clock = time.process_time()
        decision = policy.choose(r.context)
        policy.update(decision, float(r.rewards[decision.index]))
        seconds.append(seconds[-1] + time.process_time() - clock)
        regret.append(regret[-1] + float(r.means.max() - r.means[decision.index]))
    at = np.linspace(0, horizon, 51).astype(int)
    return {
        "shape": shape, "method": method, "seed": seed, "horizon": horizon, "t": at.tolist(),
        "regret": np.array(regret)[at].round(4).tolist(), "seconds": np.array(seconds)[at].round(5).tolist(),
        "dictionary": len(getattr(policy, "dictionary", [])) or None,
    }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    """Final regret, CPU milliseconds a round, dictionary; means over seeds."""
    rounds, seeds = lines[0]["horizon"], len({x["seed"] for x in lines})
    out = [f"{rounds} rounds, seeds: {seeds}", f"{'':<26}" + "".join(f"{shape:>32}" for shape in SHAPES)]
    out.append(f"{'method':<26}" + f"{'regret':>14}{'CPU ms':>8}{'points':>10}" * 3)
    for method in METHODS:
        row = f"{method:<26}"
        for shape in SHAPES:
            runs = [x for x in lines if (x["shape"], x["method"]) == (shape, method)]
            if not runs:
                row += f"{'-':>14}{'-':>8}{'-':>10}"
                continue
            regret = np.array([x["regret"][-1] for x in runs])
            cost = 1000.0 * np.mean([x["seconds"][-1] / x["horizon"] for x in runs])
            points = [x["dictionary"] for x in runs if x["dictionary"]]
            row += (
                f"{regret.mean():>8.1f} ± {regret.std():<3.1f}{cost:>8.2f}{np.mean(points) if points else 0:>10.0f}"
            )
        out.append(row)
    return "\n".join(out)


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """Regret above, CPU time so far below (logarithmic), one column a shape."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 6.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(2, 3, sharex=True)
    for column, shape in enumerate(SHAPES):
        for method, (_, colour, style) in METHODS.items():
            runs = [x for x in lines if (x["shape"], x["method"]) == (shape, method)]
            for row, value in enumerate(("regret", "seconds")):
                if runs and not (method == "Uniform" and value == "seconds"):
                    mean = np.mean([x[value] for x in runs], axis=0)
                    axes[row, column].plot(runs[0]["t"], mean, style, color=colour, label=method)
        axes[0, column].set_title(shape)
        axes[1, column].set(yscale="log", xlabel="round")
    axes[0, 0].set_ylabel("regret so far")
    axes[1, 0].set_ylabel("CPU seconds so far")
    for axis in axes.ravel():
        axis.grid(alpha=0.25)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run what is missing, print the table, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--methods", default=",".join(m for m in METHODS if "," not in m) + ",kernel given")
    parser.add_argument("--out", type=Path, default=Path("runs/ek-ucb.jsonl"))
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    asked = [m.replace("kernel given", "kinbandits, kernel given") for m in given.methods.split(",")]
    lines = [json.loads(x) for x in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {(x["shape"], x["method"], x["seed"], x["horizon"]) for x in lines}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(given.seeds):
        for shape in SHAPES:
            for method in asked:
                if (shape, method, seed, given.horizon) not in done:
                    lines.append(one(shape, method, seed, given.horizon))
                    with given.out.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
                    print(shape, method, seed, lines[-1]["regret"][-1], file=sys.stderr, flush=True)
    lines = [x for x in lines if x["horizon"] == given.horizon]
    print(table(lines))
    if given.figure:
        draw(lines, given.figure)


if __name__ == "__main__":
    main()
