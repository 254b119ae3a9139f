"""Every block of the README and of the documentation is run, page by page; `pages.py` says how."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pages import FENCE, NOT_RUN, ROOT, Page, blocks, commands

sys.path.append(str(ROOT / "tools"))

import notebooks

NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = ("console", "bash", "sh", "")


def block_of(page: str, start: str) -> str:
    (text,) = (t for _, t, _ in blocks(ROOT / "docs" / page) if t.startswith(start))
    return text


def a_service(page: Page) -> None:
    """What the pages about the service assume: its settings, a log, another's settings, an old log."""
    for name in ("news.toml", "other.toml"):
        (page.folder / name).write_text(block_of("service.md", "# news.toml"))
    rows = [f"{('sport', 'music')[i % 2]},{i % 3 // 2},0.{i % 7},0.{i % 5},0.5\n" for i in range(60)]
    for name, part in (("older.csv", rows[:50]), ("old.csv", rows[50:])):
        (page.folder / name).write_text("article,clicked,age,hour,p\n" + "".join(part))
    columns = "--arm article --reward clicked --context age,hour --propensity p"
    page.command("kinbandits token new test --role admin")
    page.command(f"kinbandits log import news.sqlite3 older.csv --config news.toml {columns}")


def rows_of_a_service(page: Page) -> None:
    """Rows of two days, and a policy that knows them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kinbandits.bulk import fit
    from kinbandits.service.config import load_settings

    a_service(page)
    n, day = 288, 1794614400.0  # 2026-11-14
    log = {"arm": ["sport", "music"] * (n // 2), "context": [f"[{i % 7 / 10}, {i % 5 / 10}]" for i in range(n)]}
    log |= {
        "learned": [float(i % 3 // 2) for i in range(n)],
        "propensity": [0.5] * n,
        "at": [day + 600 * i for i in range(n)],
    }
    (page.folder / "rows").mkdir()
    pq.write_table(pa.table(log), page.folder / "rows" / "days.parquet")
    fit("rows", load_settings("news.toml").new_policy(), progress=False).save("live.policy")


def an_experiment(page: Page) -> None:
    text = (
        'seeds = 1\nhorizon = 5\nenvironments = [{ kind = "synthetic-news" }]\nmethods = [{ name = "defaults" }]\n'
    )
    for name in ("news.toml", "experiment.toml"):
        (page.folder / name).write_text(text)


def flowers(page: Page) -> None:
    rows = [f"{5 + i / 9:.2f},{3 - i / 9:.2f},{'setosa' if i % 2 else 'virginica'}\n" for i in range(12)]
    (page.folder / "flowers.csv").write_text("length,width,species\n" + "".join(rows))


PREPARE: dict[str, Callable[[Page], None]] = {
    "service-operations.md": a_service,
    "evaluation.md": a_service,
    "bulk.md": rows_of_a_service,
    "cluster.md": an_experiment,
    "command-line.md": an_experiment,
    "your-data.md": flowers,
}


SLOW = {"bulk", "experiments", "choosing-settings", "command-line", "service", "service-operations"}


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[pytest.mark.slow] if p.stem in SLOW else []) for p in PAGES],
    ids=lambda p: p.stem,
)
def test_every_block_of_a_page_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "")  # set by the page's service, and gone afterwards
    page = Page(path, tmp_path)
    page.run(PREPARE.get(path.name))
    assert len(page.ran) == len(blocks(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_cell_of_a_notebook_runs_and_gives_what_stands_there(path: Path) -> None:
    kept = notebooks.load(path)
    cells = [c for c in kept["cells"] if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in cells] == list(range(1, len(cells) + 1))
    assert notebooks.texts(notebooks.run(kept)) == notebooks.texts(kept), "run: python tools/notebooks.py"


def test_a_notebook_as_a_page() -> None:
    shown = notebooks.run({"cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": ["x = 2\n", "print(x)\n", "x + 1"]},
    ]})  # fmt: skip
    assert notebooks.texts(shown) == ["2", "3"]
    page = notebooks.as_markdown(shown)
    assert (
        page == "# Title\ntext\n\n```python\nx = 2\nprint(x)\nx + 1\n```\n\n```text\n2\n\n```\n\n```text\n3\n```\n"
    )


def test_what_is_not_run_is_counted() -> None:
    """New ones are run, or added here on purpose; a reason that nobody needs is removed."""
    found = Counter()
    for path in PAGES:
        for language, text, _ in blocks(path):
            if language in SHELL:
                for command, _ in commands(text, prompts=language == "console"):
                    found.update(start for start in NOT_RUN if command.startswith(start))
    assert set(found) == set(NOT_RUN), set(NOT_RUN) - set(found)
    assert sum(found.values()) <= 48, found


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links, as GitHub and MyST do."""
    text = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS, ROOT / "CHANGELOG.md"], ids=lambda p: p.stem)
def test_links_lead_somewhere(page: Path) -> None:
    text = notebooks.as_markdown(notebooks.load(page)) if page in NOTEBOOKS else page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            assert re.match(r"https://[\w.-]+\.\w+(/|$)", target), f"{page.name} links to {target}"
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), f"{page.name} links to {name}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}: there is no such heading"


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    for page in [*(ROOT / "docs").glob("*.md"), *NOTEBOOKS]:
        assert page.stem == "index" or re.search(rf"^{page.stem}$", index, flags=re.MULTILINE), page.name
