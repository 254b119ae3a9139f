"""Writes what the README shows: its figure, its numbers and its table. ``make readme`` runs it.

    python tools/readme.py                plays the shop (half a minute): docs/images/shop.png, docs/readme.json and
                                          the part of README.md between the marks
    python tools/readme.py --text         only the text, from docs/readme.json, docs/comparison.md and
                                          docs/thousand-arms.txt (benchmarks/budgeted.py arms --rounds 5000)
    python tools/readme.py --dashboard    only the picture of the dashboard (a minute; needs Chromium)

`tests/test_readme.py` compares the README with `text`.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START, END = "<!-- numbers: made by `make readme` -->\n", "<!-- end of numbers -->"
PROBLEMS = {
    "Digits": "Digits",
    "Segment": "Segment",
    "Pendigits": "Pendigits",
    "Letter": "Letter",
    "USPS": "USPS",
    "MNIST": "MNIST",
    "Hidden descriptors, similarity 0": "unrelated arms",
    "Hidden descriptors, similarity 0.5": "related",
    "Hidden descriptors, similarity 0.9": "closely related",
    "Clicks, 12 arms, 13 %": "clicks, 12 arms",
    "Clicks, 50 arms, 13 %": "clicks, 50 arms",
}
METHODS = {
    "kinbandits default": "**kinbandits**, nothing set",
    "contextualbandits LinUCB": "Lin-UCB (contextualbandits)",
    "bayesianbandits UCB": "bayesianbandits, UCB",
    "Vowpal Wabbit": "Vowpal Wabbit",
}


def play() -> None:
    """The demo's story as a figure and a file of numbers."""
    import kinbandits as kb
    from kinbandits.cli.demo import _policies
    from kinbandits.plotting import save_figure

    comparison = kb.compare(_policies(), kb.environments.Shop(), seeds=6, jobs=2, progress=True)
    save_figure(comparison.plot(), ROOT / "docs" / "images" / "shop")
    clicks = {m: sum(run.trace["reward"].sum() for run in comparison.group.of(m)) for m in comparison.group.methods}
    seeds = len(comparison.group.seeds)
    found = {
        s.method: {"clicks": round(clicks[s.method] / seeds), "regret": round(s.mean)} for s in comparison.summaries
    }
    (ROOT / "docs" / "readme.json").write_text(json.dumps(found, indent=2) + "\n")


def dashboard(visitors: int = 2000) -> None:
    """The upper part of the dashboard after a simulated day of the demo's visitors, cut below a row of panels."""
    from matplotlib import image

    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    assert browser, "no Chromium: make browser"
    with tempfile.TemporaryDirectory() as folder:
        shot, settings, log = (Path(folder) / name for name in ("shot.png", "news.toml", "day.csv"))
        settings.write_text(_day(log, visitors))
        store, kinbandits = str(Path(folder) / "news.sqlite3"), [sys.executable, "-u", "-m", "kinbandits"]
        columns = ["--context", "x,y", "--propensity", "p", "--at", "at"]
        subprocess.run([*kinbandits, "log", "import", store, log, "--config", settings, *columns], check=True)
        command = [*kinbandits, "serve", str(settings), "--store", store, "--port", "8791"]
        file = str(Path(folder) / "tokens.toml")
        new = [*kinbandits, "token", "new", "reader", "--role", "read", "--tokens", file]
        token = subprocess.run(new, check=True, capture_output=True, text=True).stdout.strip()
        with subprocess.Popen([*command, "--tokens", new[-1]]) as service:
            try:
                time.sleep(15.0)
                link = f"http://reader:{token}@127.0.0.1:8791/"
                size = ("--window-size=1200,1000", "--virtual-time-budget=8000", "--hide-scrollbars")
                subprocess.run(
                    [browser, "--headless", "--no-sandbox", *size, f"--screenshot={shot}", link], check=True
                )
            finally:
                service.terminate()
        pixels = image.imread(shot)
        blank = (pixels == pixels[-1, 0]).all(axis=(1, 2)).nonzero()[0]  # rows between panels
        image.imsave(ROOT / "docs" / "images" / "dashboard.png", pixels[: blank[blank < 720].max()])


def _day(log: Path, visitors: int) -> str:
    """Plays the demo's policy for a day, writes what was logged, and gives the settings of its service."""
    import kinbandits as kb
    from kinbandits.service.demo import ARMS, reward_of

    rng, policy, now = random.Random(1), kb.KMTLUCB(ARMS, epsilon=0.1), time.time()
    with log.open("w") as file:
        file.write("arm,reward,x,y,p,at\n")
        for i in range(visitors):
            context = [rng.gauss(0, 1), rng.gauss(0, 1)]
            decision = policy.choose(context)
            reward = reward_of(str(decision.arm), context, rng)
            policy.update(decision, reward)
            at = now - 86_000.0 * (1.0 - i / visitors)
            file.write(f"{decision.arm},{reward},{context[0]},{context[1]},{decision.propensity},{at}\n")
    return f"[policy]\narms = {json.dumps(ARMS)}\nepsilon = 0.1\n"


def text() -> str:
    """The part of the README between the marks, from files that commands have written."""
    shop = json.loads((ROOT / "docs" / "readme.json").read_text())
    know, alone, linear = (shop[m]["clicks"] for m in ("with descriptors", "independent arms", "Lin-UCB"))
    many = (ROOT / "docs" / "thousand-arms.txt").read_text()
    kin, lone, lin = (
        int(re.search(rf"^  {name}, .*t = 5000: (\d+)$", many, flags=re.MULTILINE)[1])  # type: ignore[index]
        for name in ("known descriptors", "independent", "LinUCB")
    )
    page = (ROOT / "docs" / "comparison.md").read_text()
    digits = re.search(r"kinbandits default: ([\d.]+) against ([\d.]+) of (.+?)(?: \(|\. )", page)
    losses = re.search(r"^Our default, with nothing set, is (.+?):?$", page, flags=re.MULTILINE)
    assert digits is not None
    beaten = f"It is {losses[1]}." if losses else ""
    lines = [
        "| | ours | without kin | printed by |",
        "|---|---|---|---|",
        f"| clicks in a shop of 120 items, half of them new | **{know}** "
        f"| {alone} each item alone, {linear} Lin-UCB | `make demo` |",
        f"| regret with 1,000 described arms, 5,000 rounds | **{kin:,}** "
        f"| {lone:,} each arm alone, {lin:,} Lin-UCB | `python benchmarks/budgeted.py arms --rounds 5000` |",
        f"| regret on Digits, nothing set | **{float(digits[1]):.0f}** "
        f"| {float(digits[2]):.0f} {digits[3]}, the best tuned rival | `make compare` |",
        "",
        f"Regret on the same streams, peers tuned in their favour, ours with nothing set. {beaten} "
        f"[All problems and peers](docs/comparison.md).",
        "",
        f"| | {' | '.join(PROBLEMS.values())} |",
        f"|---|{'---|' * len(PROBLEMS)}",
        *(
            f"| {shown} | {' | '.join(regret(page, p, name) for p in PROBLEMS)} |"
            for name, shown in METHODS.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def regret(page: str, problem: str, method: str) -> str:
    """The mean regret of a method in the table of a problem."""
    section = page.partition(f"\n## {problem}\n")[2].partition("\n## ")[0]
    row = re.search(rf"^\| {re.escape(method)} \|[^|]*\| ([\d.,]+) ", section, flags=re.MULTILINE)
    return "-" if row is None else f"{float(row[1].replace(',', '')):,.0f}"


def written(readme: str) -> str:
    """The README with that part as it should be."""
    before, _, rest = readme.partition(START)
    return before + START + text() + END + rest.partition(END)[2]


if __name__ == "__main__":
    if "--dashboard" in sys.argv:
        dashboard()
    elif "--text" not in sys.argv:
        play()
    path = ROOT / "README.md"
    path.write_text(written(path.read_text()))
