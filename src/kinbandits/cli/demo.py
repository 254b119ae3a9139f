"""``kinbandits demo``: related items, some of them new, noisy clicks, and what sharing is worth there."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinbandits.cli.output import Json, command_line, need, print_json, print_table

if TYPE_CHECKING:
    from kinbandits.environments import Shop
    from kinbandits.results import Comparison

NEXT = "kinbandits paper --quick"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    seeds: Annotated[int, typer.Option(help="Shops that are played, each by every policy.", min=1)] = 6,
    horizon: Annotated[int | None, typer.Option(help="Customers of each shop (default: 1,000).", min=40)] = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1 is all processors.")] = 2,
    out: Annotated[Path, typer.Option(help="Directory of the report.")] = Path("report"),
    as_json: Json = False,
) -> None:
    """Run a shop with many related items, some of them new, and noisy clicks.

    Four policies meet the same customers: one that knows which items are alike, the default, independent arms and
    Lin-UCB. Prints clicks and regret, and what each item contributes to the estimate of a new one; writes a page.

    \b
    Examples:
      kinbandits demo
      kinbandits demo --seeds 10 --out results
      kinbandits demo --seeds 1 --horizon 200 --json
    """
    need("the demo", "demo", "matplotlib", "jinja2")
    import kinbandits as kb
    from kinbandits.environments import Shop
    from kinbandits.progress import Progress, clock
    from kinbandits.report import Section, write_page

    started = time.monotonic()
    shop = Shop() if horizon is None else Shop(horizon=horizon)
    policies = _policies()
    with Progress(seeds * len(policies), "runs", stream=sys.stderr) as bar:
        found = kb.compare(policies, shop, seeds=seeds, jobs=jobs, progress=True)
    policy = policies["with descriptors"](shop)
    kb.simulate(policy, shop)
    columns, table, answer = _clicks(shop, found)
    new = [item for item in shop.arms[shop.on_sale(0) :] if policy.counts[item] <= 2] or shop.arms[-1:]
    customer = [0.0] * shop.n_features
    explained = policy.explain_arm(new[int(policy.predict(customer, new).mean.argmax())], customer)
    regret = (
        f"Clicks expected of the best item on sale minus those of the item shown: mean of {seeds} shops, 95 % band."
    )
    bars = "The estimate is a weighted sum of the clicks seen so far; a bar is the part of one item's clicks."
    sections = [
        Section("regret", "Clicks that were missed", regret, columns, table, (1, 2, 3, 4), figure=found.plot()),
        Section("lent", "Contribution of each arm", f"{explained.sentence}\n{bars}", figure=explained.plot()),
        Section("next", "Next", f"The experiments of the paper: {NEXT}\nA service: kinbandits serve --demo"),
    ]
    page = write_page(out, "What sharing is worth", answer, sections, command=command_line())
    if as_json:
        print_json({"answer": answer, "table": [dict(zip(columns, row, strict=True)) for row in table]})
        return
    print(f"\n{answer}\n")
    print_table("Clicks and regret (expected clicks missed)", columns, table, (1, 2, 3, 4))
    print(f"\nContribution of each arm\n{explained}")
    print(f"\nFigures: {page}   The paper: {NEXT}   Done in {clock(time.monotonic() - started)}.")


def _policies() -> dict[str, Any]:
    import kinbandits as kb

    return {
        "with descriptors": lambda shop: kb.KMTLUCB(shop.arms, similarity=kb.Known(descriptors=shop.descriptors)),
        "default": kb.KMTLUCB,
        "independent arms": lambda shop: kb.KMTLUCB(shop.arms, similarity=kb.Independent()),
        "Lin-UCB": lambda shop: kb.baselines.lin_ucb(shop.arms, exploration=0.3),  # better here than 0.1 and 1
    }


def _clicks(shop: Shop, found: Comparison) -> tuple[tuple[str, ...], list[list[str]], str]:
    """The table of clicks, and the answer in a sentence."""
    group = found.group
    clicks = {m: sum(run.trace["reward"].sum() for run in group.of(m)) / len(group.seeds) for m in group.methods}
    know = clicks["with descriptors"]
    rows = []
    for s in found.summaries:
        less = "" if s.method == group.methods[0] else f"{clicks[s.method] - know:+.0f}"
        rows.append([s.method, f"{clicks[s.method]:.0f}", less, f"{s.mean:.0f}", f"{s.low:.0f} to {s.high:.0f}"])
    answer = (
        f"{shop.n_arms} items, half of them new, and {group.rounds:,} customers: a policy that knows which items "
        f"are alike got {know:.0f} clicks where one that learns every item alone got "
        f"{clicks['independent arms']:.0f}, and Lin-UCB {clicks['Lin-UCB']:.0f} (mean of {len(group.seeds)} shops)."
    )
    return ("policy", "clicks", "against the first", "regret", "95 % interval"), rows, answer
