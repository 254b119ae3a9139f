"""Every example in the README and the documentation runs and prints what it says."""

from __future__ import annotations

import doctest
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if ">>>" in p.read_text())


def test_there_are_pages() -> None:
    assert {"policy.md", "kernels.md", "similarity.md"} <= {p.name for p in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_of_a_page(page: Path) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failures, tried = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert tried > 0
    assert failures == 0


def test_the_example_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(example, {})
    assert "from other arms' data" in capsys.readouterr().out


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+\.\w+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem == "index" or re.search(rf"^{page.stem}$", index, flags=re.MULTILINE), page.name
