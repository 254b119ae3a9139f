"""`benchmarks/compare`: every peer plays, those written here do what their papers say, and the page is that of the CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compare import page, run
from compare.peers import LIBRARIES, Choice, Peer
from compare.problems import PROBLEMS, Setup
from compare.written import EKUCB, LinUCB, NeuralUCB

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the libraries
ROOT = Path(__file__).parents[1]
SETUP = Setup(arms=["a", "b", "c"], n_features=2)
ROWS = 40


def learned(peer: Peer) -> Peer:
    """With rows that are the same for all."""
    rng = np.random.default_rng(3)
    arms = [SETUP.arms[i] for i in rng.integers(3, size=ROWS)]
    peer.observe(arms, rng.normal(size=(ROWS, 2)), rng.normal(size=ROWS))
    return peer


@pytest.mark.parametrize("problem", ["clicks-12-50", "hidden-0.5", "tasks", "catalogue", "drift"])
@pytest.mark.parametrize("method", run.METHODS)
def test_everybody_plays(method: str, problem: str) -> None:
    if why := run.why_not(problem, method):
        pytest.skip(why)
    settings: list[dict[str, Any]] = [{}] if method in run.OURS else list(run.PEERS[method].settings(PROBLEMS[problem]))
    for chosen in settings if problem in ("clicks-12-50", "hidden-0.5") else settings[-1:]:
        game = run.Game(problem, method, 0, chosen)
        environment = PROBLEMS[problem].make(0)
        found = run.play(game.policy(environment), environment, 3)
        assert found["regret"] >= 0.0
        assert found["rounds"] == 3


def test_items_that_come_half_way_can_be_chosen() -> None:
    shop = list(PROBLEMS["catalogue"].make(0).rounds())
    assert [len(shop[t].candidates) for t in (0, 499, 500)] == [100, 100, 200]
    for method in ("linucb", "mabwiser", "bayesianbandits-hybrid", "vowpalwabbit"):
        if run.why_not("catalogue", method) is None:
            settings = next(iter(run.PEERS[method].settings(PROBLEMS["catalogue"])))
            peer = run.Game("catalogue", method, 0, settings).policy(None)
            for t in (0, 499, 500):
                choice = peer.choose(shop[t].context, shop[t].candidates)
                peer.update(choice, 1.0)
            assert len(choice.arms) == 200


def test_linucb_chooses_the_arms_that_coba_chooses() -> None:
    pytest.importorskip("coba")
    ours, theirs = (learned(kind(SETUP, alpha=0.7, ridge=0.5)) for kind in (LinUCB, LIBRARIES["coba"]))
    for x in np.random.default_rng(4).normal(size=(30, 2)):
        assert ours.choose(x).index == theirs.choose(x).index


def test_posterior_of_ek_ucb_is_that_of_its_paper() -> None:
    """mean = k' Lambda Gamma, width^2 = k(s, s) / lambda + k' (Lambda - k(Z,Z)^-1 / lambda) k, after every row."""

    def k(arms: Any, X: Any, others: Any, Y: Any) -> Any:
        distance = ((X[:, None] - Y[None]) ** 2).sum(axis=2)
        return np.where(arms[:, None] == others[None], 1.0, 0.4) * np.exp(-distance / (2.0 * 0.8**2))

    peer = EKUCB(SETUP, length_scale=0.8, ridge=0.5, exploration=0.7, kin=0.4, mu=0.5)
    rng = np.random.default_rng(0)
    arms, X, y = rng.integers(3, size=ROWS), rng.normal(size=(ROWS, 3)), rng.normal(size=ROWS)
    every, same = np.arange(3), np.tile([0.3, -0.2], (3, 1))
    for t in range(1, ROWS + 1):
        peer._learn(Choice(0, arms[[t - 1]], X[[t - 1]]), y[t - 1])
        D, x = np.array(peer.dictionary), X[:, :2]
        K_DD = k(arms[D], x[D], arms[D], x[D]) + 1e-8 * np.eye(len(D))
        K_DS = k(arms[D], x[D], arms[:t], x[:t])
        Lambda = np.linalg.inv(K_DS @ K_DS.T + 0.5 * K_DD)
        k_s = k(arms[D], x[D], every, same)
        _, mean, width = peer.posterior(every, same)
        np.testing.assert_allclose(mean, k_s.T @ Lambda @ K_DS @ y[:t], atol=1e-6)
        inner = k_s.T @ (Lambda - np.linalg.inv(K_DD) / 0.5) @ k_s
        np.testing.assert_allclose(width**2, 1.0 / 0.5 + np.diag(inner), atol=1e-6)
    assert 3 < len(peer.dictionary) < ROWS


def test_neural_ucb_descends_its_loss_and_starts_at_nothing() -> None:
    peer = NeuralUCB(SETUP, nu=0.1, width=6)
    arms, X, y = np.array([0, 1, 1, 2]), np.random.default_rng(1).normal(size=(4, 3)), np.array([1.0, 0.0, 2.0, -1.0])
    np.testing.assert_allclose(peer.scores(arms, X)[0], 0.0, atol=1e-6)
    peer.W, peer.v = peer.W.astype(float), peer.v + 0.1

    def loss() -> float:
        hidden = np.maximum(np.einsum("kmp,kp->km", peer.W[arms], X), 0.0)
        return float(np.mean((hidden @ peer.v - y) ** 2))

    of_W, of_v = peer.gradient(arms, X, y)
    before = loss()
    peer.W[1, 2, 0] += 1e-6
    assert (loss() - before) / 1e-6 == pytest.approx(of_W[1, 2, 0], rel=1e-2, abs=1e-4)
    peer.W[1, 2, 0] -= 1e-6
    peer.v = peer.v.astype(float)
    peer.v[3] += 1e-6
    assert (loss() - before) / 1e-6 == pytest.approx(of_v[3], rel=1e-2, abs=1e-4)


def test_settings_are_chosen_on_seeds_that_are_not_scored_and_games_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[run.Game] = []

    def regret(game: run.Game) -> dict[str, float]:
        played.append(game)
        return {"regret": game.settings["alpha"], "cpu_ms": 1.0, "rounds": 1}

    monkeypatch.setattr(run, "_play", regret)
    cells = run.Cells(tmp_path)
    assert cells.chosen("clicks-12-50", "linucb") is None
    for _ in range(2):  # the second time from the directory
        run.run(cells, ["clicks-12-50"], ["linucb"], 2)
    tuned = len(list(LinUCB.settings(PROBLEMS["clicks-12-50"]))) + run.FINALISTS
    assert [g.seed for g in played] == [100] * (tuned - run.FINALISTS) + [101] * run.FINALISTS + [0, 1]
    assert {g.settings["alpha"] for g in played[tuned:]} == {0.1}
    (row,) = (r for r in page.rows(cells, 2) if r.problem == "Clicks, 12 arms, 50 %")
    assert (row.method, row.seeds, row.regret) == ("Lin-UCB", 2, 0.1)


def test_the_page_is_that_of_the_csv_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert page.PAGE.read_text(encoding="utf-8") == page.page(page.read()), "run: python benchmarks/compare --page-only"
