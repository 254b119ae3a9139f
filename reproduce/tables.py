"""Tables for the pages of the documentation, as they are shown: CSV files of text, written beside the reports.

    python -m reproduce.tables [--run runs/paper] [--cv runs/paper-cv]

`make paper` copies them to docs/paper/tables, and tools/tables.py writes them into the pages.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from joblib import cpu_count

from kinbandits.paper.report import sections
from kinbandits.progress import clock
from kinbandits.report import Section, show_number
from kinbandits.results import Results, summarise


def write_tables(found: Iterable[Section], place: Path) -> None:
    """The shown table of each section that has one: PLACE/tables/NAME.csv."""
    (place / "tables").mkdir(parents=True, exist_ok=True)
    for section in found:
        if section.rows:
            with (place / "tables" / f"{section.name}.csv").open("w", encoding="utf-8", newline="") as stream:
                csv.writer(stream, lineterminator="\n").writerows([section.columns, *section.rows])


def tables(results: Results) -> Iterator[Section]:
    """Of the paper's experiments: the claims without their means, the reference, the summary, and what it took."""
    for section in sections(results):
        if section.name == "claims":
            section = replace(section, columns=section.columns[:-1], rows=[row[:-1] for row in section.rows])
        yield section
    rows = [
        (s.environment, s.method, show_number(s.mean), show_number(s.sd), f"{s.best} of {len(s.finals)}")
        for group in results.groups
        for s in summarise(group)
    ]
    yield Section("summary", "", columns=("Data", "Method", "Mean", "sd", "Best in"), rows=rows)
    yield Section("run", "", columns=("what", "value"), rows=list(run(results).items()))


def run(results: Results) -> dict[str, str]:
    """Commit, date, and the time that it took."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    starts, lengths, cpu = (
        np.array([float(t[name]) for t in results.times]) for name in ("started", "seconds", "cpu_seconds")
    )
    return {
        "report written at commit": commit,
        "runs made": f"{len(starts)}, from {_day(starts.min())} to {_day((starts + lengths).max())}",
        "processor time": f"{clock(cpu.sum())} on one of {cpu_count()} cores",
        "share of a core that a run had": f"{cpu.sum() / lengths.sum():.0%}",
    }


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds)) + " UTC"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables of the paper's experiments, and of those with settings by cross-validation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--run", default="runs/paper")
    parser.add_argument("--cv", default="runs/paper-cv")
    given = parser.parse_args(arguments)
    place = Path(given.run) / "report"
    write_tables(tables(Results.load(given.run)), place)
    if Path(given.cv).exists():
        names = {"chosen": "cv-settings", "reference": "cv-regret"}
        found = [s for s in sections(Results.load(given.cv)) if s.name in names]
        write_tables([replace(s, name=names[s.name]) for s in found], place)


if __name__ == "__main__":
    main()
