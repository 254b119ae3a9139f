"""The multi-task effect, end to end: regret falls with mu for those who share, and for nobody else."""

import numpy as np
import pytest
from reproduce.theory import MUS, Size, effect_runs
from scipy.stats import spearmanr


@pytest.mark.slow
def test_regret_falls_with_mu_for_those_who_share_only():
    """Four seeds, the same contexts and noise for all mu and both policies."""
    sharing, alone = effect_runs(Size(horizon=150, seeds=4))
    mean = sharing.mean(axis=0)
    assert spearmanr(np.tile(MUS, len(sharing)), sharing.ravel()).statistic < -0.7
    assert mean[-1] < 0.5 * mean[0]
    assert (sharing[:, -1] < sharing[:, 0]).all()  # in every single run
    assert (np.diff(mean[1:]) < 0).all()
    assert np.abs(alone.mean(axis=0) / alone.mean(axis=0)[0] - 1).max() < 0.2
    np.testing.assert_allclose(alone[:, 0], sharing[:, 0])  # at mu = 0 they are the same policy
    assert (sharing[:, -1] < 0.6 * alone[:, -1]).all()
