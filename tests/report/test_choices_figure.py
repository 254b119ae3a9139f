"""The picture of what an adaptive similarity chose: every number in it is one of the report's."""

from __future__ import annotations

import json

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.environments import HiddenDescriptors

pytest.importorskip("matplotlib")
from kinbandits.report import choices_figure


def test_curves_are_the_reports() -> None:
    game = HiddenDescriptors(seed=1, horizon=110)
    policy = kb.KMTLUCB(game.arms, similarity=kb.Adaptive(margin=1.0))
    kb.simulate(policy, game)
    report = policy.similarity_report()
    figure = choices_figure({"hidden": report, "again": json.loads(json.dumps(report.to_data()))})
    axes = np.array(figure.axes).reshape(3, 2)
    assert [ax.get_title() for ax in axes[0]] == ["hidden", "again"]
    for column in axes.T:
        x, mu = column[0].lines[0].get_data()
        assert list(x) == [c.rows for c in report.over_time]
        assert list(mu) == [c.mu for c in report.over_time]
        assert max(mu) > 0.0
        fits = {line.get_label(): line.get_ydata()[-1] for line in column[1].lines}
        assert fits["needed"] == 1.0
        own = report.candidates[0].log_likelihood
        for c in report.candidates[1:]:
            assert fits[f"mu = {c.mu:g}, scale {c.scale:g}"] == pytest.approx(c.log_likelihood - own, abs=1e-5)
        judged = [line for line in column[2].lines if "scale" in str(line.get_label())]
        assert len(judged) == 6
    choices_figure({"nothing chosen yet": _early()})


def _early() -> object:
    game = HiddenDescriptors(seed=1, horizon=20)
    policy = kb.KMTLUCB(game.arms, similarity=kb.Adaptive(margin=1.0))
    kb.simulate(policy, game)
    return policy.similarity_report(complete=False)
