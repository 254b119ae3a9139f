"""``kinbandits demo``: related items, some of them new, noisy clicks, and what sharing is worth there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinbandits._html import text_table
from kinbandits.cli.output import Jobs, Json, command_line, need, print_json

if TYPE_CHECKING:
    from kinbandits.environments import Shop
    from kinbandits.policy import KMTLUCB
    from kinbandits.results import Comparison


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    seeds: Annotated[int, typer.Option(help="Shops that are played, each by every policy.", min=1)] = 4,
    horizon: Annotated[int, typer.Option(help="Customers of each shop.", min=40)] = 600,
    out: Annotated[Path, typer.Option(help="Directory for the page.")] = Path("report"),
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Play a shop with related items, new items and noisy clicks.

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
    from kinbandits.progress import clock
    from kinbandits.report import Section, write_page

    started = time.monotonic()
    shop = Shop(n_arms=16, kinship=1.5, intercept=0.0, strength=4.0, horizon=horizon)
    policies: dict[str, Any] = {
        "with descriptors": lambda shop: kb.KMTLUCB(shop.arms, similarity=kb.Known(descriptors=shop.descriptors)),
        "default": kb.KMTLUCB,
        "independent arms": lambda shop: kb.KMTLUCB(shop.arms, similarity=kb.Independent()),
        "Lin-UCB": lambda shop: kb.baselines.lin_ucb(shop.arms, exploration=0.3),  # better here than 0.1 and 1
    }
    found = kb.compare(policies, shop, seeds=seeds, jobs=jobs, progress=True)
    known, default = policies["with descriptors"](shop), kb.KMTLUCB(shop.arms)
    for policy in (known, default):  # the first shop once more, to look into them
        kb.simulate(policy, shop)
    columns, rows, answer = _clicks(shop, found)
    why = _why(default)
    newest = min(shop.arms[shop.on_sale(0) :], key=lambda item: known.counts[item])
    explained = known.explain_arm(newest, [0.0] * shop.n_features)
    text = f"""{why}
Lines: clicks expected of the best item on sale minus those of the item shown, mean of {seeds} shops, 95 % band."""
    bars = "The estimate is a weighted sum of the clicks seen so far; a bar is the part of one item's clicks."
    sections = [
        Section("regret", "Clicks that were missed", text, columns, rows, (1, 2, 3, 4), figure=found.plot()),
        Section(
            "lent", "Contribution of each arm to a new one", f"{explained.sentence}\n{bars}", figure=explained.plot()
        ),
        Section("next", "Next", "The paper: kinbandits paper --quick\nA service: kinbandits serve --demo"),
    ]
    page = write_page(out, "What sharing is worth", answer, sections, command=command_line())
    if as_json:
        table = [dict(zip(columns, row, strict=True)) for row in rows]
        print_json({"answer": answer, "default": why, "table": table, "page": str(page)})
        return
    print(f"\n{answer}\n\n{why}\n")
    print(text_table("Clicks and regret (expected clicks missed)", columns, rows, (1, 2, 3, 4)))
    print(f"\nContribution of each arm to a new one\n{explained}")
    print(f"\nPage: {page}   The paper: kinbandits paper --quick   Done in {clock(time.monotonic() - started)}.")


def _clicks(shop: Shop, found: Comparison) -> tuple[tuple[str, ...], list[list[str]], str]:
    """The table of clicks, and the answer in a sentence."""
    group = found.group
    clicks = {m: sum(run.trace["reward"].sum() for run in group.of(m)) / len(group.seeds) for m in group.methods}
    rows = []
    for s, d in zip(found.summaries, [None, *found.differences], strict=True):  # d is first minus other
        more = "" if d is None else f"{-d.difference:+.0f}"
        interval = "" if d is None or d.seeds < 2 else f"{-d.high:+.0f} to {-d.low:+.0f}"
        rows.append([s.method, f"{clicks[s.method]:.0f}", f"{s.mean:.0f}", more, interval])
    answer = (
        f"{shop.n_arms} items, half of them new, and {group.rounds:,} customers: a policy that knows which items "
        f"are alike got {clicks['with descriptors']:.0f} clicks where one that learns every item alone got "
        f"{clicks['independent arms']:.0f}, and Lin-UCB {clicks['Lin-UCB']:.0f} (mean of {len(group.seeds)} shops)."
    )
    return ("policy", "clicks", "regret", "more than the first", "95 % interval"), rows, answer


def _why(default: KMTLUCB) -> str:
    """Whether the default shared in the first shop, and why, in sentences."""
    from kinbandits.model.kin import LEAD

    table = {c.what: c.lead for c in default.model.table if c.what.startswith("similarity: ")}
    lead = max((lead for what, lead in table.items() if what != "similarity: independent"), default=0.0)
    rows = f"{default.model.rows:,} impressions"
    if any(getattr(k_z, "shared", 1.0) for k_z in default.model.k_z):
        return f"The default found in {rows} that items are related (evidence {lead:.0f} nats), and shares."
    return (
        f"The default knows nothing of the items. It shares once the rewards favour sharing by {LEAD:.0f} nats; {rows} "
        f"of the first shop favour it by {max(lead, 0.0):.0f}, since one click says little. So it learned each item "
        "alone. Describe the items, and they share from the first click."
    )
