"""One HTML page that opens offline, and the figures beside it as PNG, SVG and PDF."""

from __future__ import annotations

import contextlib
import csv
import importlib.metadata
import io
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits._files import atomic_write
from kinbandits._version import __version__
from kinbandits.errors import MissingPackageError
from kinbandits.progress import clock
from kinbandits.report import figures
from kinbandits.report.choices import choices_figure, recorded_choices
from kinbandits.report.claims import Claim, check_claims
from kinbandits.report.reference import ReferenceRow, check_reference
from kinbandits.report.results import Results
from kinbandits.report.statistics import Comparison, Summary, compare_all, summarise

__all__ = ["Report", "write_report"]

_PACKAGES = ("numpy", "scipy", "joblib", "threadpoolctl", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Figure:
    """A figure of the page."""

    name: str
    title: str
    caption: str
    uri: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What `write_report` made."""

    page: Path
    summaries: list[Summary]
    comparisons: list[Comparison]
    claims: list[Claim]
    references: list[ReferenceRow]


def write_report(
    directory: str | PathLike[str],
    out: str | PathLike[str] | None = None,
    *,
    command: str = "",
    formats: Sequence[str] = ("png", "svg", "pdf"),
) -> Report:
    """A report on the finished cells of an experiment's directory; by default in its folder ``report``.

    Args:
        directory: where `run_experiment` wrote.
        out: where the page goes (``index.html``), with ``figures/``, and the tables as CSV.
        command: the command that made the runs, to be shown.
        formats: of the figures beside the page.
    """
    results = Results.load(directory)
    place = Path(out) if out is not None else Path(directory) / "report"
    (place / "figures").mkdir(parents=True, exist_ok=True)
    summaries = [row for problem in results.problems for row in summarise(problem)]
    comparisons = compare_all(results)
    claims = check_claims(results)
    references = check_reference(results)
    page = (
        environment()
        .get_template("report.html.j2")
        .render(
            results=results,
            summaries=summaries,
            comparisons=comparisons,
            claims=claims,
            references=references,
            figures=list(_figures(results, place, formats)),
            settings=_settings(results),
            machine=_machine(results),
            command=command,
            clock=clock,
            several=max(len(p.seeds) for p in results.problems) > 1,
        )
    )
    atomic_write(place / "index.html", page.encode())
    atomic_write(place / "summary.csv", _summary_csv(summaries).encode())
    for name, rows in (("claims", claims), ("reference", references), ("tests", comparisons)):
        if rows:
            atomic_write(place / f"{name}.csv", _csv([row.__dict__ for row in rows]).encode())
    return Report(place / "index.html", summaries, comparisons, claims, references)


def environment() -> Any:
    """Jinja's environment, with our templates and filters."""
    try:
        import jinja2
    except ImportError as error:
        raise MissingPackageError("reports need jinja2; install it with: pip install 'kinbandits[plot]'") from error
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("kinbandits.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"num": _num, "p": _p, "signed": _signed, "regrets": _regrets}
    return found


def _num(value: float, digits: int = 1) -> str:
    if not np.isfinite(value):
        return "–"
    if value != 0 and abs(value) < 10:
        digits += 2 if abs(value) < 1 else 1
    return f"{value:,.{digits}f}"


def _signed(value: float) -> str:
    return "–" if not np.isfinite(value) else ("+" if value > 0 else "−" if value < 0 else "") + _num(abs(value))


def _p(value: float) -> str:
    return "–" if not np.isfinite(value) else ("< 0.001" if value < 0.001 else f"{value:.3f}")


def _regrets(values: Sequence[float]) -> str:
    return " ".join(_num(v, 0) for v in values)


def _figures(results: Results, place: Path, formats: Sequence[str]) -> Any:
    seeds = {len(p.seeds) for p in results.problems}
    runs = f"{min(seeds)} runs" if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)} runs"
    band = "" if max(seeds) == 1 else " Shaded: 95 % interval of the mean (Student)."
    synthetic = next((e for e in results.record["environments"].values() if e["kind"] == "synthetic-news"), None)
    wanted: list[tuple[str, str, str, Any]] = [
        (
            "regret",
            "Regret",
            f"Mean over {runs}, every method on the same streams.{band}",
            figures.regret_figure(results),
        ),
        (
            "regret-intervals",
            "Regret with confidence intervals",
            "Thin: single runs. Marks: mean over runs with its 95 % confidence interval at ten rounds (marks of "
            "different methods stand a little apart).",
            figures.appendix_figure(results),
        ),
    ]
    if any(len(p.methods) > 1 for p in results.problems):
        wanted.append(
            (
                "differences",
                "Seed by seed",
                "Final regret of the first method minus that of the other, run by run (dots), as a share of the "
                "other's mean; diamonds: mean and its 95 % interval.",
                figures.difference_figure(results),
            )
        )
    similarity = figures.similarity_figure(results)
    if similarity is not None:
        wanted.append(
            (
                "similarity",
                "Similarity of arms at the end",
                "k_Z after the last round, mean over runs. Arms are re-ordered to show blocks: average-linkage "
                "hierarchical clustering of 1 − k_Z, leaves in the optimal order. The diagonal, which is 1, is "
                "left blank; every panel has its own colour scale.",
                similarity,
            )
        )
    chosen = recorded_choices(results)
    if chosen:
        wanted.append(
            (
                "choices",
                "What the adaptive similarity chose, and why",
                "First seed. Above: the share mu of the estimate in k_Z (0: independent arms), chosen anew as rows "
                "come. Middle: how much better than independent arms each candidate fits; it must reach the "
                "margin. Below: how much more its leave-one-out decisions earn; it must not be less than 0 (judged "
                "only where the fit reaches the margin).",
                choices_figure(chosen),
            )
        )
    if synthetic is not None:
        reading = synthetic.get("reward", "text")
        wanted.append(
            (
                "synthetic",
                "The synthetic problem",
                "Contexts of four articles for 1,500 users drawn from the ellipse: each article sees the user "
                f"rotated by its own angle θ. Colour: reward (reading: the {reading}'s).",
                figures.synthetic_figure(reading),
            )
        )
    for name, title, caption, figure in wanted:
        files = figures.save_figure(figure, place / "figures" / name, formats)
        paths = tuple(f"figures/{f.name}" for f in files)
        yield Figure(name, title, caption, figures.data_uri(figure), paths)


def _settings(results: Results) -> list[dict[str, Any]]:
    rows = []
    for problem in results.problems:
        environment = results.record["environments"][problem.name]
        for method in problem.methods:
            run = problem.of(method)[0]
            rows.append(
                {
                    "environment": problem.name,
                    "game": ", ".join(f"{k} = {_plain(v)}" for k, v in environment.items()),
                    "method": method,
                    "policy": run.result.header["policy"].partition(" · ")[0],
                    "seeds": ", ".join(map(str, problem.seeds)),
                }
            )
    return rows


def _plain(value: Any) -> str:
    if isinstance(value, dict) and "sha256" in value:
        return f"{value['file']} (sha256 {value['sha256'][:12]}…)"
    return str(value)


def _machine(results: Results) -> dict[str, str]:
    versions = {"kinbandits": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    made = sorted({f"{t['kinbandits']} with NumPy {t['numpy']}" for t in results.times if "numpy" in t})
    starts = [float(t["started"]) for t in results.times if "started" in t]
    ends = [float(t["started"]) + float(t["seconds"]) for t in results.times if "started" in t]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "machine": f"{platform.machine()}, {_processor()}, {cores} cores, {platform.system()} {platform.release()}",
        "versions": ", ".join(f"{k} {v}" for k, v in versions.items()),
        "runs made by": ", ".join(f"kinbandits {m}" for m in made) or "unknown",
        "time of all runs, added up": clock(results.seconds),
        "from the first start to the last end": clock(max(ends) - min(starts)) if starts else "unknown",
        "report written": time.strftime("%Y-%m-%d %H:%M", time.localtime()),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    return stream.getvalue()


def _summary_csv(summaries: Sequence[Summary]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["environment", "method", "rounds", "metric", "mean", "sd", "low95", "high95", "best_in", "per_seed"]
    )
    for s in summaries:
        finals = " ".join(f"{v:.10g}" for v in s.finals)
        numbers = [f"{v:.10g}" for v in (s.mean, s.sd, s.low, s.high)]
        writer.writerow([s.environment, s.method, s.rounds, s.metric, *numbers, s.best, finals])
    return stream.getvalue()
