"""A report: one HTML page that opens offline, figures and tables beside it as files.

write_report("runs/news")                    # the finished cells of an experiment
write_page(place, title, lead, [Section("regret", "Regret", figure=figure)])
"""

from __future__ import annotations

import base64
import contextlib
import csv
import importlib.metadata
import io
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from joblib import cpu_count

from kinbandits import figures
from kinbandits._files import atomic_write
from kinbandits._version import __version__
from kinbandits.errors import package
from kinbandits.plotting import save_figure
from kinbandits.progress import clock
from kinbandits.results import Paired, Results, Summary, compare_all, summarise

__all__ = ["Report", "Section", "write_page", "write_report"]

VERDICTS = {
    "reproduced": "good",
    "undecided": "half",
    "not enough runs": "half",
    "not reproduced": "bad",
    "contradicted": "bad",
}
"""How a cell with this text is coloured."""
_PACKAGES = ("numpy", "scipy", "joblib", "threadpoolctl", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Section:
    """A part of a page: a figure, a table and text, each of which may be missing."""

    name: str  # of the anchor, the figure's file and the CSV file
    title: str  # the headline
    text: str = ""  # paragraphs, one a line
    columns: Sequence[str] = ()  # of the table as it is shown
    rows: Sequence[Sequence[str]] = ()
    right: Sequence[int] = ()  # which columns are set flush right (numbers)
    small: Sequence[int] = ()  # and which small (long text)
    records: Sequence[Mapping[str, Any]] = ()  # the table in full, for the CSV file; none is written without them
    figure: Any = None  # a matplotlib figure


@dataclass(frozen=True)
class Report:
    """What `write_report` made."""

    page: Path  # the HTML file
    summaries: list[Summary]
    comparisons: list[Paired]
    extra: list[Section]  # sections added by ``extra=``


def write_page(
    place: Path, title: str, lead: str, sections: Iterable[Section], *, command: str = "", warning: str = ""
) -> Path:
    """Write ``index.html``, ``figures/NAME.png`` and ``NAME.csv`` into ``place``; gives the page."""
    jinja2 = package("jinja2", "reports need", "'kinbandits[plot]'")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kinbandits"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    (place / "figures").mkdir(parents=True, exist_ok=True)
    sections, images = list(sections), {}
    for section in sections:
        if section.figure is not None:
            image = place / "figures" / f"{section.name}.png"
            save_figure(section.figure, image)
            images[section.name] = "data:image/png;base64," + base64.b64encode(image.read_bytes()).decode()
        if section.records:
            stream = io.StringIO(newline="")
            writer = csv.DictWriter(stream, list(section.records[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: _cell(v) for k, v in record.items()} for record in section.records)
            atomic_write(place / f"{section.name}.csv", stream.getvalue().encode())
    page = environment.get_template("page.html.j2").render(
        title=title, lead=lead, sections=sections, images=images, command=command, warning=warning, verdicts=VERDICTS
    )
    atomic_write(place / "index.html", page.encode())
    return place / "index.html"


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, tuple | list):
        return " ".join(str(_cell(v)) for v in value)
    return value


def one_line(text: str) -> str:
    """Text without its line breaks."""
    return " ".join(text.split())


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


# -- the report on an experiment --------------------------------------------------------------------


def write_report(
    directory: str | PathLike[str],
    out: str | PathLike[str] | None = None,
    *,
    command: str = "",
    extra: Callable[[Results], Iterable[Section]] | None = None,
) -> Report:
    """A report on the finished cells of an experiment's directory; by default in its folder ``report``.

    ``command`` made the runs, and is shown; ``extra`` gives further sections, after the table of final values.
    """
    results = Results.load(directory)
    place = Path(out) if out is not None else Path(directory) / "report"
    summaries = [row for group in results.groups for row in summarise(group)]
    comparisons = compare_all(results.groups)
    more = [] if extra is None else list(extra(results))
    sections = [_table(summaries), *more, *_pictures(results), *_tests(comparisons), *_about(results)]
    runs = _count(sum(len(g.runs) for g in results.groups), "run")
    lead = f"{_count(len(results.groups), 'environment')}, {runs}. Every method meets the same streams, so runs "
    lead += "with the same seed are pairs."
    n, warning = results.missing, ""
    if n:
        warning = f"{_count(n, 'run')} {'is' if n == 1 else 'are'} not finished; this report covers the others, on "
        warning += "the seeds that all methods have."
    page = write_page(place, results.name, lead, sections, command=command, warning=warning)
    return Report(page, summaries, comparisons, more)


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
        (c.environment, c.first, c.second, *show_paired(c), *map(show_p, (c.t_test, c.adjusted, c.wilcoxon)))
        for c in comparisons
    ]
    columns = ("Environment", "First", "Second", "Difference", "95 % interval", "First better / equal / worse",
               "Paired t", "Holm", "Wilcoxon")  # fmt: skip
    text = (
        "First minus second, seed by seed. p values: paired t test, the same adjusted by Holm's method over this "
        "table, Wilcoxon's signed-rank test. They hold for streams from these data sets only."
    )
    records = [c.__dict__ for c in comparisons]
    yield Section("tests", "Paired tests", text, columns, rows, (3, 4, 5, 6, 7, 8), records=records)


def _pictures(results: Results) -> Iterator[Section]:
    groups = results.groups
    seeds = {len(g.seeds) for g in groups}
    runs = _count(min(seeds), "run") if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)} runs"
    band = "" if max(seeds) == 1 else " Shaded: 95 % interval of the mean (Student)."
    text = f"Mean over {runs}, every method on the same streams.{band}"
    counted = "Average reward" if {g.better for g in groups} == {1} else "Regret"
    yield Section("regret", counted, text, figure=figures.regret_figure(groups))
    text = """
        Thin: single runs. Marks: mean over runs with its 95 % confidence interval at ten rounds (marks of different
        methods stand a little apart)."""
    title = f"{counted} with confidence intervals"
    yield Section("regret-intervals", title, one_line(text), figure=figures.appendix_figure(groups))
    if any(len(g.methods) > 1 for g in groups):
        text = """
            Final value of the first method minus that of the other, run by run (dots), as a share of the other's
            mean; diamonds: mean and its 95 % interval."""
        yield Section("differences", "Seed by seed", one_line(text), figure=figures.difference_figure(groups))
    similarity = figures.similarity_figure(groups)
    if similarity is not None:
        text = """
            k_Z after the last round, mean over runs, on one scale from 0 to 1. Arms are re-ordered to show blocks:
            average-linkage hierarchical clustering of 1 − k_Z, leaves in the optimal order. The diagonal, which is
            1, is left blank."""
        yield Section("similarity", "Similarity of arms at the end", one_line(text), figure=similarity)


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
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    times = [t for t in results.times if "started" in t]
    made = sorted({f"kinbandits {t['kinbandits']} with NumPy {t['numpy']}" for t in times})
    return {
        "machine": f"{platform.machine()}, {platform.processor() or 'unknown processor'}, {cpu_count()} cores",
        "versions": ", ".join(f"{k} {v}" for k, v in versions.items()),
        "runs made by": ", ".join(made) or "unknown",
        "time of all runs, added up": clock(sum(t["seconds"] for t in times)),
        "report written": time.strftime("%Y-%m-%d %H:%M", time.localtime()),
    }
