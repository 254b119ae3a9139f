"""How a policy shows itself: one line of text, or a small table in a notebook."""

from __future__ import annotations

import inspect
from html import escape

from kinbandits.noise import LearnedRidge
from kinbandits.policies.defaults import defaults
from kinbandits.policies.kmtl_ucb import KMTLUCB
from kinbandits.policies.ledger import Pending
from kinbandits.rewards import Standardized
from kinbandits.terms import Terms


def text_repr(policy: KMTLUCB) -> str:
    """The settings that differ from the defaults, and how much has been learned."""
    shown = [f"arms={policy.n_arms}", *(f"{k}={v}" for k, v in _settings_shown(policy).items())]
    seen = f"{policy.n_observations} observations, {len(policy.pending())} pending"
    return f"{type(policy).__name__}({', '.join(shown)})  # {seen}"


def html_repr(policy: KMTLUCB) -> str:
    """Settings, and a table of arms with their counts."""
    counts = policy.counts
    most = max(counts.values(), default=0) or 1
    settings = "".join(
        f"<tr><th style='text-align:left'>{escape(k)}</th><td style='text-align:left'>{escape(str(v))}</td></tr>"
        for k, v in _settings_shown(policy).items()
    )
    arms = "".join(
        f"<tr><td style='text-align:left'>{escape(str(name))}{' (retired)' if name in policy.retired else ''}</td>"
        f"<td>{n}</td><td style='text-align:left'>"
        f"<div style='background:#0072B2;height:0.7em;width:{100 * n / most:.0f}px'></div></td></tr>"
        for name, n in list(counts.items())[:30]
    )
    more = f"<p>... and {len(counts) - 30} arms more</p>" if len(counts) > 30 else ""
    return (
        f"<div><b>{type(policy).__name__}</b>: {policy.n_arms} arms, {policy.n_observations} observations, "
        f"{len(policy.pending())} decisions pending"
        f"<details><summary>settings</summary><table>{settings}</table></details>"
        f"<details open><summary>arms</summary><table><tr><th style='text-align:left'>arm</th><th>rows</th>"
        f"<th></th></tr>{arms}</table>{more}</details></div>"
    )


def _settings_shown(policy: KMTLUCB) -> dict[str, str]:
    parameters = inspect.signature(KMTLUCB.__init__).parameters
    usual = {name: p.default for name, p in parameters.items()} | {"pending": Pending()}
    fixed = None if isinstance(policy.ridge, LearnedRidge) else policy.ridge
    usual |= defaults(rewards=policy.rewards, ridge=fixed)
    usual |= {"ridge": defaults(rewards=policy.rewards)["ridge"]}
    if fixed is None:
        usual |= {"rewards": Standardized()}
    elif policy.rewards is not None and policy.rewards.about_all_arms:
        usual |= {"rewards": None}
    shown: dict[str, str] = {}
    for name, value in policy.get_params().items():
        if isinstance(value, Terms):
            if len(value) == 1 and value.terms[0].columns is None:
                shown["context_kernel"] = repr(value.terms[0].context_kernel)
                shown["similarity"] = repr(value.terms[0].similarity)
            else:
                shown["kernel"] = " + ".join(repr(t) for t in value)
        elif name != "arms" and value != usual.get(name):
            shown[name] = repr(value)
    return shown
