"""Tables and sentences about the paper for pages of the documentation, from the CSV files of `make paper`.

python -m reproduce.tables            # writes them into the pages, between their marks
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
REPORT = DOCS / "paper" / "report"
PAGES = [DOCS / f"{name}.md" for name in ("idea", "reproduce")]
EST, IND = "KMTL-UCB-Est", "Kernel-UCB-Ind"
REFERENCE = {  # regret on the ten streams, of a dense float64 solve every round; near-ties of scores may move a run
    ("Digits", EST): "315 359 361 323 303 283 321 297 340 350",
    ("Digits", IND): "324 378 409 337 317 323 326 303 354 347",
    ("Segment", EST): "166 139 144 136 146 130 131 165 171 170",
    ("Segment", IND): "146 192 184 179 162 142 206 216 185 214",
    ("Letter", EST): "2319",  # of Letter the means alone are known
    ("Letter", IND): "2522",
    ("Pendigits", EST): "273 259 339 298 293 326 297 288 293 320",
    ("Pendigits", IND): "302 306 352 376 315 325 308 281 317 312",
    ("USPS", EST): "995 893 1052 1079 941 1066 992 859 895 926",
    ("USPS", IND): "1038 1149 1112 1278 1130 1092 1235 1061 1183 1099",
    ("MNIST", EST): "923 1003 973 879 978 919 951 1001 979 867",
    ("MNIST", IND): "928 1315 1105 911 1064 965 1166 991 1017 1053",
}
MARKS = re.compile(r"(<!-- table: ([a-z-]+) -->\n)(.*?)(<!-- end -->\n)", re.S)


def tables() -> dict[str, str]:
    """Every table by name, as Markdown."""
    return {
        "reference": _table(("data", "method", "mean regret", "reference", "off by", "runs equal"), _reference()),
        "summary": _table(("data", "method", "mean", "sd", "best in"), _summary()),
        "claims": _table(
            ("data", "claim", "paper", "holds in", "verdict", "difference (95 %)", "p", "Holm"), _claims()
        ),
        "counts": _table(("data", "correlation with counts alone"), _counts()),
        "findings": "\n".join(f"- {line}" for line in _findings()),
        "points": _points(REPORT),
        "effect": _effect(),
    }


def filled(text: str) -> str:
    """A page with its tables as they are now."""
    found = tables()
    return MARKS.sub(lambda m: f"{m.group(1)}\n{found[m.group(2)]}\n\n{m.group(4)}", text)


def _rows(name: str, place: Path = REPORT) -> list[dict[str, str]]:
    with (place / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _reference() -> Iterator[list[str]]:
    runs = _rows("results", DOCS / "paper")
    for (where, method), listed in REFERENCE.items():
        ours = [float(r["regret"]) for r in runs if (r["environment"], r["method"]) == (where, method)]
        theirs = [float(v) for v in listed.split()]
        mean, reference = sum(ours) / len(ours), sum(theirs) / len(theirs)
        equal = sum(a == b for a, b in zip(ours, theirs, strict=False))
        count = f"{equal} of {len(ours)}" if len(theirs) > 1 else "not listed"
        off = f"{100 * (mean / reference - 1):+.2f} %"
        yield [where, method, _number(mean), _number(reference), off, count]


def _summary() -> Iterator[list[str]]:
    for r in _rows("summary"):
        runs = len(r["per_seed"].split())
        yield [
            r["environment"],
            r["method"],
            _number(r["mean"]),
            _number(r["sd"], r["mean"]),
            f"{r['best_in']} of {runs}",
        ]


def _claims() -> Iterator[list[str]]:
    for r in _rows("claims"):
        says = r["says"] + ("" if r["source"] == "paper" else " (our check)")
        tests = _p(r["p"]), _p(r["adjusted"])
        yield [
            r["where"],
            says,
            r["claimed"],
            f"{r['holds']} of {r['runs']}",
            f"**{r['verdict']}**",
            _gap(r),
            *tests,
        ]


def _counts() -> Iterator[list[str]]:
    for r in _rows("counts"):
        yield [r["where"], f"{float(r['correlation']):.2f}"]


def _points(place: Path, only: str | None = None) -> str:
    rows = [r for r in _rows("sweep-points", place) if only in (None, r["where"])]
    methods = list(dict.fromkeys(r["method"] for r in rows))
    at = {(r["where"], float(r["multiplier"]), r["method"]): r for r in rows}
    lines = []
    for where, multiplier in dict.fromkeys((w, x) for w, x, _ in at):
        found = [at.get((where, multiplier, m)) for m in methods]
        cells = ["–" if r is None else f"{_number(r['mean'])} ± {_number(r['half'], r['mean'])}" for r in found]
        lines.append([*([] if only else [where]), f"{multiplier:g}", *cells])
    return _table((*([] if only else ["data"]), "multiplier", *methods), lines)


def _swept() -> dict[str, int]:
    """Runs of each data set in the sweep."""
    return {r["where"]: len(r["finals"].split()) for r in _rows("sweep-points")}


def _findings() -> Iterator[str]:
    """What the sweep says, in sentences; a test decides each, so that few runs decide nothing."""
    rows, points = _rows("sweep"), _rows("sweep-points")
    mean = {(r["where"], r["method"], float(r["multiplier"])): float(r["mean"]) for r in points}

    def at(second: str, x: float) -> list[dict[str, str]]:
        return [r for r in rows if r["second"] == second and float(r["multiplier"]) == x]

    def named(found: list[dict[str, str]]) -> str:
        each = (f"{r['where']} ({_number(r['first_mean'])} and {_number(r['second_mean'])})" for r in found)
        return ", ".join(each) or "none"

    counts = at("counts only", 0.1)
    same = [r for r in counts if float(r["equal"]) < 0.05]
    others = [r for r in counts if r not in same]
    yield (
        "**Counts alone or the estimate?** At the paper's multiplier both have the same regret to within 5 % on "
        f"{named(same)}{f'; not shown on {named(others)}' if others else ''}."
    )
    for x in (0.1, 1.0):
        found = at(IND, x)
        better = [r for r in found if float(r["high"]) < 0.0]
        worse = [r for r in found if float(r["low"]) > 0.0]
        yield (
            f"**Against independent arms**, at equal settings and multiplier {x:g}, the estimate has less regret "
            f"(95 % interval below 0) on {named(better)}, and more on {named(worse)}, of {len(found)} problems."
        )
    pairs = {w: m / mean[w, EST, x] for (w, method, x), m in mean.items() if (method, x) == ("no self pairs", 0.1)}
    ratios = ", ".join(f"{where} {ratio:.1f}" for where, ratio in pairs.items())
    yield (
        "**Without self pairs** the estimate has to look at contexts. Its regret, as a multiple of that with them: "
        f"{ratios}."
    )
    falls = [f"{w} from {_number(m)} to {_number(mean[w, IND, 1.0])}" for (w, method, x), m in mean.items()
             if (method, x) == (IND, 0.1) and (w, IND, 1.0) in mean]  # fmt: skip
    yield f"**Exploration matters more.** From 0.1 to 1 the regret of independent arms changes: {', '.join(falls)}."


def _effect() -> str:
    """Regret against the true similarity, from the page on the theory."""
    found = {r["what"]: r["value"] for r in _rows("numbers", DOCS / "paper" / "theory")}
    mus = ("0", "0.25", "0.5", "0.75", "1")
    names = {"KMTL-UCB that knows μ": "KMTL-UCB", "independent arms": "Independent"}
    rows = ([name, *(_number(found[f"regret at mu = {mu}: {key}"]) for mu in mus)] for name, key in names.items())
    return _table(("true similarity μ of any two arms", *mus), rows)


def _number(text: str | float, beside: str | float = 0.0) -> str:
    """One decimal below 100; none above, nor beside a number above."""
    value = float(text)
    digits = 0 if max(abs(value), abs(float(beside))) >= 100 else 1
    return "–" if value != value else f"{value:,.{digits}f}"


def _gap(r: dict[str, str]) -> str:
    if float(r["difference"]) != float(r["difference"]):
        return "–"
    widest = max(r["low"], r["high"], key=lambda end: abs(float(end)))
    sign = "+" if float(r["difference"]) >= 0 else ""
    low, high = (_number(r[end], widest) for end in ("low", "high"))
    return f"{sign}{_number(r['difference'], widest)} ({low} to {high})"


def _p(text: str) -> str:
    value = float(text)
    return "–" if value != value else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _table(columns: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    head = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
