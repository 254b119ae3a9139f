"""The shop keeps the contract of an environment; items come in order; kin are alike."""

from __future__ import annotations

import numpy as np
import pytest

from kinbandits.environments import Shop, check_environment, make_environment


def test_it_keeps_the_contract():
    check_environment(Shop(n_arms=6, horizon=30))
    assert make_environment("shop", seed=3, n_arms=5) == Shop(seed=3, n_arms=5)


def test_items_come_in_order_and_stay():
    shop = Shop(n_arms=20, new=0.5, horizon=200)
    rounds = list(shop.rounds())
    sizes = [len(r.candidates) for r in rounds]
    assert sizes[0] == 10
    assert sizes[150] == sizes[-1] == 20
    assert sizes == sorted(sizes)
    assert all(r.candidates == shop.arms[: len(r.candidates)] for r in rounds)
    assert all(len(r.rewards) == len(r.means) == len(r.candidates) for r in rounds)


def test_alike_items_are_clicked_alike():
    shop = Shop(n_arms=40, new=0.0, horizon=400, n_features=1)
    means = np.array([r.means for r in shop.rounds()])
    z = shop.descriptors
    distances = np.linalg.norm(z[:, None] - z, axis=2) + 9 * np.eye(40)
    nearest, farthest = distances.argmin(axis=1), (distances % 9).argmax(axis=1)
    gaps = np.abs(means - means[:, nearest]).mean(), np.abs(means - means[:, farthest]).mean()
    assert gaps[0] < 0.5 * gaps[1]
    clicks = np.array([r.rewards for r in shop.rounds()])
    assert set(np.unique(clicks)) == {0.0, 1.0}
    assert clicks.mean() == pytest.approx(means.mean(), abs=0.02)


@pytest.mark.parametrize("wrong", [{"new": 1.0}, {"new": -0.1}, {"n_arms": 0}, {"kinship": 0.0}, {"strength": -1.0}])
def test_wrong_fields_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Shop(**wrong)
