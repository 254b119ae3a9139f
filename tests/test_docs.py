"""Every block of the README and of the documentation is run, page by page; `pages.py` says how."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pages import FENCE, ROOT, Page, blocks, find

sys.path.append(str(ROOT / "tools"))

import tables

DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
SLOW = {"serve", "operate", "log-and-evaluate", "experiment"}  # they start a service, or several processes


def a_service(page: Page) -> None:
    """What the page on operation assumes: settings of the served policy and of another, a log, rows of an older one."""
    for name in ("news.toml", "other.toml"):
        (page.folder / name).write_text('[policy]\narms = ["sport", "music"]\n[service]\nfeatures = 2\n')
    rows = [f"{('sport', 'music')[i % 2]},{i % 3 // 2},0.{i % 7},0.{i % 5},0.5\n" for i in range(60)]
    for name, part in (("older.csv", rows[:50]), ("old.csv", rows[50:])):
        (page.folder / name).write_text("article,clicked,age,hour,p\n" + "".join(part))
    columns = "--arm article --reward clicked --context age,hour --propensity p"
    page.command(
        f"cd {page.folder}; kinbandits log import news.sqlite3 older.csv --config news.toml {columns}", "", "before"
    )


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[pytest.mark.slow] if p.stem in SLOW else []) for p in PAGES],
    ids=lambda p: p.stem,
)
def test_every_block_of_a_page_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "")  # set by the page on the service, and gone afterwards
    page = Page(path, tmp_path)
    if path.stem == "operate":
        a_service(page)
    page.run()
    assert page.ran == len(blocks(path))


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links, as GitHub and MyST do."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda p: p.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            assert re.match(r"https://(arxiv|semver)\.org(/|$)", target), f"{page.name} links to {target}"
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), f"{page.name} links to {name}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}: there is no such heading"


def test_every_page_is_behind_a_door() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in DOCS:
        assert page.stem == "index" or re.search(rf"^{page.stem}$", index, flags=re.MULTILINE), page.name


def test_the_documentation_stays_small() -> None:
    assert len(DOCS) <= 18
    assert sum(len(p.read_text(encoding="utf-8").split()) for p in DOCS) <= 16_000


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda p: p.stem)
def test_tables_are_those_of_the_result_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert tables.filled(text) == text, "run: python tools/tables.py"
    first = next((m for m in tables.MARKS.finditer(text) if m[2] in tables.tables()), None)
    if first is not None:
        changed = text.replace(first[3], first[3].replace("|", "| 1", 1))
        assert changed != text
        assert tables.filled(changed) == text


def statements() -> list[tuple[str, str, str]]:
    """(statement, functions, tests) of the table on the page about the theory."""
    text = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    part = text.partition("## Statement, function, test")[2].partition("\n## ")[0]
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in part.splitlines() if line.startswith("| ")]
    return [(row[0], row[1], row[2]) for row in rows if row[0] != "statement"]


@pytest.mark.parametrize("row", statements(), ids=lambda row: row[0])
def test_a_statement_has_a_function_and_a_test(row: tuple[str, str, str]) -> None:
    _, functions, names = row
    for name in re.findall(r"`([^`]+)`", functions):
        assert callable(find("kinbandits." + name.removeprefix("kb.") if "." in name else f"kinbandits.theory.{name}"))
    tests = re.findall(r"`([^`]+)`", names)
    assert tests
    for test in tests:
        file, _, function = test.partition("::")
        path = ROOT / (file if "/" in file else f"tests/theory/{file}")
        assert path.exists(), test
        assert not function or f"def {function}(" in path.read_text(encoding="utf-8"), test
