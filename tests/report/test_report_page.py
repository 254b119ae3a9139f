"""The page: one file, offline, complete; and a browser's view of it."""

import os
import re
import shutil

import pytest

from kinbandits.errors import InvalidInputError
from kinbandits.experiments import experiment_of, run_experiment
from kinbandits.experiments.store import CellStore
from kinbandits.paper.protocol import paper_experiment
from kinbandits.report import write_report

FIGURES = ["regret", "regret-intervals", "differences", "similarity"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    run_experiment(paper_experiment(["synthetic", "digits"], seeds=3, horizon=40), place / "runs", jobs=1)
    return write_report(place / "runs", command="kinbandits paper --quick")


def test_the_page_is_one_file_and_asks_the_network_for_nothing(made):
    page = made.page.read_text(encoding="utf-8")
    sources = re.findall(r'src="([^"]{0,40})', page)
    assert len(sources) == len(FIGURES)
    assert all(s.startswith("data:image/png;base64,") for s in sources)
    # Outside the pictures nothing points to another host.
    outside = re.sub(r'src="data:[^"]*"', "", page)
    assert "http" not in outside
    assert "<script" not in page
    for text in (
        "kinbandits paper --quick",
        "Kernel-UCB-Pool",
        "average-linkage",
        "Paired tests",
        "NumPy",
        "0, 1, 2",
        "length_scale",
        "2 environments, 18 runs.",
    ):
        assert text in page, text


def test_a_report_made_again_has_the_same_figures(made, tmp_path):
    again = write_report(made.page.parent.parent, tmp_path / "again")
    for name in FIGURES:  # nothing in them depends on the day
        first, second = ((p.page.parent / "figures" / f"{name}.png").read_bytes() for p in (made, again))
        assert first == second


def test_the_summary_is_there_as_a_table(made):
    lines = (made.page.parent / "summary.csv").read_text().splitlines()
    assert lines[0].startswith("environment,method,rounds,metric,mean,sd")
    assert len(lines) == 1 + 6
    assert lines[1].startswith("Synthetic news,KMTL-UCB,40,regret,")
    assert len((made.page.parent / "tests.csv").read_text().splitlines()) == 1 + 4


def test_a_report_on_half_an_experiment_says_so(tmp_path):
    data = {
        "name": "<b>half</b>",
        "seeds": 2,
        "environments": [{"kind": "synthetic-news", "horizon": 5}],
        "methods": [{"name": "only"}],
    }
    experiment = experiment_of(data)
    run_experiment(experiment, tmp_path, jobs=1)
    CellStore(tmp_path).cell_path(experiment.cells()[1]).unlink()
    page = write_report(tmp_path).page.read_text(encoding="utf-8")
    assert "1 run is not finished" in page
    assert "&lt;b&gt;half&lt;/b&gt;" in page  # names are text, not markup
    CellStore(tmp_path).cell_path(experiment.cells()[0]).unlink()
    with pytest.raises(InvalidInputError, match="no finished cell yet"):
        write_report(tmp_path)


def test_a_report_needs_no_data_any_more(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("x,y\n" + "".join(f"0.{i},{'ab'[i % 2]}\n" for i in range(10)))
    data = {
        "name": "own",
        "seeds": 1,
        "environments": [{"kind": "classification", "data": str(rows), "target": "y", "name": "own"}],
        "methods": [{"name": "only"}],
    }
    run_experiment(experiment_of(data), tmp_path / "runs", jobs=1)
    rows.unlink()
    assert write_report(tmp_path / "runs").summaries[0].rounds == 10


def browser_path():
    """Chromium, or a plain word on why this test is left out."""
    path = os.environ.get("KINBANDITS_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        path, missing = None, "playwright is not installed: pip install playwright"
    else:
        missing = "there is no Chromium: apt-get install chromium, or set KINBANDITS_CHROMIUM"
    if path is None:
        pytest.skip(f"the browser test is left out: {missing}")
    return path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_browser_without_a_network_shows_every_figure(made):
    path = browser_path()
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    options += ["--disable-background-networking", "--disable-component-update"]
    problems, requests = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        context = browser.new_context(offline=True, viewport={"width": 1200, "height": 900})
        page = context.new_page()
        page.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: problems.append(str(e)))
        page.on("requestfailed", lambda r: problems.append(r.url[:80]))
        page.on("request", lambda r: requests.append(r.url[:40]))
        page.goto(made.page.as_uri())
        page.wait_for_load_state("load")
        sizes = page.eval_on_selector_all(
            "img", "all => all.map(i => [i.complete, i.naturalWidth, i.getBoundingClientRect().width])"
        )
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        title = page.title()
        browser.close()
    assert problems == []
    assert all(u.startswith(("file:", "data:")) for u in requests)
    assert len(sizes) == len(FIGURES)
    assert all(complete and natural > 100 and width > 100 for complete, natural, width in sizes)
    assert overflow <= 0
    assert title.endswith("kinbandits")
