"""Every block of the README and of the documentation is run, page by page; `pages.py` says how."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pages import FENCE, NOT_RUN, ROOT, Page, blocks, commands

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
    page.command(f"kinbandits log import news.sqlite3 older.csv --config news.toml {columns}")


PREPARE: dict[str, Callable[[Page], None]] = {
    "service-operations.md": a_service,
}


SLOW = {"experiments", "choosing-settings", "log-and-evaluate", "service", "service-operations"}


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


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda p: p.stem)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
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
    for page in [*(ROOT / "docs").glob("*.md")]:
        assert page.stem == "index" or re.search(rf"^{page.stem}$", index, flags=re.MULTILINE), page.name
