"""One HTML page that opens offline, made of sections; figures and tables stand beside it as files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kinbandits._files import atomic_write
from kinbandits.errors import package
from kinbandits.plotting import data_uri, save_figure

FORMATS = ("png", "svg", "pdf")
VERDICTS = {
    "reproduced": "good",
    "in the mean only": "half",
    "undecided": "half",
    "not reproduced": "bad",
    "contradicted": "bad",
}
"""How a cell with this text is coloured."""


@dataclass(frozen=True)
class Section:
    """A part of a page: a figure, a table and text, each of which may be missing."""

    name: str  # of the anchor, the figure's files and the CSV file
    title: str  # the headline
    text: str = ""  # paragraphs, one a line
    columns: Sequence[str] = ()  # of the table as it is shown
    rows: Sequence[Sequence[str]] = ()
    right: Sequence[int] = ()  # which columns are set flush right (numbers)
    small: Sequence[int] = ()  # and which small (long text)
    records: Sequence[Mapping[str, Any]] = ()  # the table in full, for the CSV file; none is written without them
    figure: Any = None  # a matplotlib figure
    uri: str = field(default="", repr=False)
    files: tuple[str, ...] = ()


def write_page(
    place: Path,
    title: str,
    lead: str,
    sections: Iterable[Section],
    *,
    command: str = "",
    warning: str = "",
    formats: Sequence[str] = FORMATS,
) -> Path:
    """Write ``index.html``, ``figures/`` and the CSV files into ``place``; gives the page."""
    template = _templates().get_template("page.html.j2")
    (place / "figures").mkdir(parents=True, exist_ok=True)
    done = [_with_files(section, place, formats) for section in sections]
    page = template.render(
        title=title, lead=lead, sections=done, command=command, warning=warning, verdicts=VERDICTS
    )
    for section in done:
        if section.records:
            atomic_write(place / f"{section.name}.csv", _csv(section.records).encode())
    atomic_write(place / "index.html", page.encode())
    return place / "index.html"


def one_line(text: str) -> str:
    """Text without its line breaks."""
    return " ".join(text.split())


def _with_files(section: Section, place: Path, formats: Sequence[str]) -> Section:
    if section.figure is None:
        return section
    files = save_figure(section.figure, place / "figures" / section.name, formats)
    links = tuple(path.relative_to(place).as_posix() for path in files)
    drawn = next((path for path in files if path.suffix == ".svg"), None)
    return replace(section, uri=data_uri(section.figure, drawn), files=links)


def _templates() -> Any:
    jinja2 = package("jinja2", "reports need", "'kinbandits[plot]'")
    return jinja2.Environment(
        loader=jinja2.PackageLoader("kinbandits.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _csv(records: Sequence[Mapping[str, Any]]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, list(records[0]), lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({k: _cell(v) for k, v in record.items()})
    return stream.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, tuple | list):
        return " ".join(str(_cell(v)) for v in value)
    return value
