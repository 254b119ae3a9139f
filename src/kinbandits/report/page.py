"""The report on an experiment: final values, curves, paired tests, similarities, settings, machine."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from joblib import cpu_count

from kinbandits._version import __version__
from kinbandits.progress import clock
from kinbandits.report import figures
from kinbandits.report.html import FORMATS, Section, one_line, write_page
from kinbandits.report.results import Paired, Results, Summary, compare_all, summarise

_PACKAGES = ("numpy", "scipy", "joblib", "threadpoolctl", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Report:
    """What `write_report` made."""

    page: Path  # the HTML file
    summaries: list[Summary]
    comparisons: list[Paired]
    extra: list[Section]  # sections added by ``extra=``


def write_report(
    directory: str | PathLike[str],
    out: str | PathLike[str] | None = None,
    *,
    command: str = "",
    formats: Sequence[str] = FORMATS,
    extra: Callable[[Results], Iterable[Section]] | None = None,
) -> Report:
    """A report on the finished cells of an experiment's directory; by default in its folder ``report``.

    ``command`` made the runs, and is shown; ``extra`` gives further sections, after the table of final values.
    """
    results = Results.load(directory)
    place = Path(out) if out is not None else Path(directory) / "report"
    summaries = [row for group in results.groups for row in summarise(group)]
    comparisons = compare_all(results)
    more = [] if extra is None else list(extra(results))
    sections = [_table(summaries), *more, *_pictures(results), *_tests(comparisons), *_about(results)]
    runs = _count(sum(len(g.runs) for g in results.groups), "run")
    lead = f"{_count(len(results.groups), 'environment')}, {runs}. Every method meets the same streams, so runs "
    lead += "with the same seed are pairs."
    n, warning = results.missing, ""
    if n:
        warning = f"{_count(n, 'run')} {'is' if n == 1 else 'are'} not finished; this report covers the others, on "
        warning += "the seeds that all methods have."
    page = write_page(place, results.name, lead, sections, command=command, warning=warning, formats=formats)
    return Report(page, summaries, comparisons, more)


def show_number(value: float, digits: int = 1) -> str:
    """A number for a table, with more digits where it is small.

    >>> show_number(1234.56), show_number(0.1234), show_number(float("nan"))
    ('1,234.6', '0.123', '–')
    """
    if not np.isfinite(value):
        return "–"
    if value != 0 and abs(value) < 10:
        digits += 2 if abs(value) < 1 else 1
    return f"{value:,.{digits}f}"


def show_signed(value: float) -> str:
    """A difference, always with its sign."""
    if not np.isfinite(value):
        return "–"
    return ("+" if value > 0 else "−" if value < 0 else "") + show_number(abs(value))


def show_p(value: float) -> str:
    """A p value."""
    return "–" if not np.isfinite(value) else ("< 0.001" if value < 0.001 else f"{value:.3f}")


def show_paired(c: Paired) -> tuple[str, str, str]:
    """Difference, 95 % interval, and better / equal / worse."""
    interval = f"{show_signed(c.low)} to {show_signed(c.high)}"
    return show_signed(c.difference), interval, f"{c.wins} / {c.ties} / {c.losses}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _table(summaries: Sequence[Summary]) -> Section:
    rows = [
        (
            s.environment, s.method, f"{s.rounds:,}", s.metric, f"{show_number(s.mean)} ± {show_number(s.sd)}",
            f"{show_number(s.low)} to {show_number(s.high)}", f"{s.best} of {len(s.finals)}",
            " ".join(show_number(v, 0) for v in s.finals), show_number(s.seconds),
        )
        for s in summaries
    ]  # fmt: skip
    columns = ("Environment", "Method", "Rounds", "Counted", "Mean ± sd", "95 % interval", "Best in", "Per seed",
               "Seconds per run")  # fmt: skip
    text = (
        '± is the standard deviation over seeds. "Best in": seeds in which no other method of the table is better '
        "(ties count for each)."
    )
    records = [
        {
            "environment": s.environment, "method": s.method, "rounds": s.rounds, "metric": s.metric,
            "mean": s.mean, "sd": s.sd, "low95": s.low, "high95": s.high, "best_in": s.best, "per_seed": s.finals,
        }
        for s in summaries
    ]  # fmt: skip
    return Section("summary", "Final values", text, columns, rows, (2, 4, 5, 6, 8), (7,), records)


def _tests(comparisons: Sequence[Paired]) -> Iterator[Section]:
    if not comparisons or comparisons[0].seeds < 2:
        return
    rows = [
        (
            c.environment, c.first, c.second, *show_paired(c), show_p(c.t_test), show_p(c.adjusted),
            show_p(c.wilcoxon),
        )
        for c in comparisons
    ]  # fmt: skip
    columns = ("Environment", "First", "Second", "Difference", "95 % interval", "First better / equal / worse",
               "Paired t", "Holm", "Wilcoxon")  # fmt: skip
    text = (
        "First minus second, seed by seed. p values: paired t test, the same adjusted by Holm's method over this "
        "table, Wilcoxon's signed-rank test. They speak of streams drawn from these data, not of other data."
    )
    records = [c.__dict__ for c in comparisons]
    yield Section("tests", "Paired tests", text, columns, rows, (3, 4, 5, 6, 7, 8), records=records)


def _pictures(results: Results) -> Iterator[Section]:
    seeds = {len(g.seeds) for g in results.groups}
    runs = _count(min(seeds), "run") if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)} runs"
    band = "" if max(seeds) == 1 else " Shaded: 95 % interval of the mean (Student)."
    text = f"Mean over {runs}, every method on the same streams.{band}"
    yield Section("regret", "Regret", text, figure=figures.regret_figure(results))
    text = """
        Thin: single runs. Marks: mean over runs with its 95 % confidence interval at ten rounds (marks of different
        methods stand a little apart)."""
    title = "Regret with confidence intervals"
    yield Section("regret-intervals", title, one_line(text), figure=figures.appendix_figure(results))
    if any(len(g.methods) > 1 for g in results.groups):
        text = """
            Final regret of the first method minus that of the other, run by run (dots), as a share of the other's
            mean; diamonds: mean and its 95 % interval."""
        yield Section("differences", "Seed by seed", one_line(text), figure=figures.difference_figure(results))
    similarity = figures.similarity_figure(results)
    if similarity is not None:
        text = """
            k_Z after the last round, mean over runs. Arms are re-ordered to show blocks: average-linkage
            hierarchical clustering of 1 − k_Z, leaves in the optimal order. The diagonal, which is 1, is left
            blank; every panel has its own colour scale."""
        yield Section("similarity", "Similarity of arms at the end", one_line(text), figure=similarity)
    chosen = figures.recorded_choices(results)
    if chosen:
        text = """
            First seed. Above: the share mu of the estimate in k_Z (0: independent arms), chosen anew as rows come.
            Middle: how much better than independent arms each candidate fits; it must reach the margin. Below: how
            much more its leave-one-out decisions earn; it must not be less than 0 (judged only where the fit
            reaches the margin)."""
        title = "What the adaptive similarity chose, and why"
        yield Section("choices", title, one_line(text), figure=figures.choices_figure(chosen))


def _about(results: Results) -> Iterator[Section]:
    rows = []
    for group in results.groups:
        environment = results.record["environments"][group.name]
        for method in group.methods:
            policy = group.of(method)[0].trace.metadata["policy"].partition(" · ")[0]
            game = ", ".join(f"{k} = {_shown(v)}" for k, v in environment.items())
            rows.append((group.name, method, policy, game, ", ".join(map(str, group.seeds))))
    columns = ("Environment", "Method", "Policy", "Game", "Seeds")
    yield Section("settings", "Settings and seeds", "", columns, rows, small=(2, 3, 4))
    yield Section("machine", "Machine, versions, time", "", ("what", "value"), list(_machine(results).items()))


def _shown(value: Any) -> str:
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
    return {
        "machine": f"{platform.machine()}, {_processor()}, {cpu_count()} cores, {platform.system()}",
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
