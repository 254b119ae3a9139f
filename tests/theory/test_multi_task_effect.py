"""The multi-task effect, end to end: regret falls with mu for those who share, and for nobody else."""

import numpy as np
import pytest
from reproduce.theory import MultiTaskEffect
from reproduce.theory_runs import Size
from scipy.stats import spearmanr


@pytest.fixture(scope="module")
def effect():
    """Four seeds, the same contexts and noise for all mu and both policies."""
    return MultiTaskEffect(Size(horizon=150, seeds=4))


@pytest.mark.slow
def test_regret_of_kmtl_ucb_falls_with_mu(effect):
    mean = effect.kin.mean(axis=0)
    assert spearmanr(np.tile(effect.mus, len(effect.kin)), effect.kin.ravel()).statistic < -0.7
    assert mean[-1] < 0.5 * mean[0]
    assert (effect.kin[:, -1] < effect.kin[:, 0]).all()  # in every single run
    assert (np.diff(mean[1:]) < 0).all()


@pytest.mark.slow
def test_regret_of_independent_arms_does_not(effect):
    mean = effect.alone.mean(axis=0)
    assert np.abs(mean / mean[0] - 1).max() < 0.2
    np.testing.assert_allclose(effect.alone[:, 0], effect.kin[:, 0])  # at mu = 0 they are the same policy
    assert (effect.kin[:, -1] < 0.6 * effect.alone[:, -1]).all()
