"""The comparison: peers behind one interface, the grid, resuming, the page. With whatever peers are installed."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import kinbandits as kb
from compare import catalogue, peers
from compare.command import main
from compare.costs import cost_of
from compare.edges import try_edges
from compare.figure import write_figure
from compare.page import propensities, rows, summary, verdicts, write_page
from compare.plan import DEFAULT, INVERSE, Plan
from compare.run import MethodRow, Standings, missing, read, record, run
from kinbandits.experiments import experiment_of
from kinbandits.experiments.config import policy_named

pytestmark = pytest.mark.filterwarnings("ignore")  # those of other libraries
HERE = [n for n in catalogue.installed() if catalogue.PEERS[n].library or catalogue.PEERS[n].own]
LINEAR = [n for n in ("mabwiser-linucb", "contextualbandits", "coba") if n in HERE]


def played(policy, environment) -> list:
    return kb.simulate(policy, environment)["arm"].tolist()


def digits(**options) -> kb.environments.Classification:
    return kb.environments.Classification("digits", protocol="paper", **options)


def of(peer: str, environment, index: int = 0, **others):
    entry = catalogue.PEERS[peer]
    return policy_named(entry.policy).for_environment(environment, seed=0, **(entry.grid[index] | others))


@pytest.mark.parametrize("peer", HERE)
def test_a_peer_plays_and_learns(peer: str) -> None:
    """Better than chance, which pays 1 in 10, and the same again with the same seed."""
    environment = digits(horizon=200, seed=1)
    one = kb.simulate(of(peer, environment), environment)
    assert one.final_regret < 170
    assert played(of(peer, environment), environment) == one["arm"].tolist()


@pytest.mark.parametrize("peer", LINEAR)
@pytest.mark.parametrize("index", [0, 3, 5])
def test_linucb_of_ours_plays_the_arms_of_theirs(peer: str, index: int) -> None:
    """With one row of every arm first: an arm without rows has, in MABWiser, lambda I in place of I / lambda."""
    environment = digits(horizon=150, seed=2)
    theirs = played(of(peer, environment, index), environment)
    assert played(of("kinbandits-linucb", environment, index), environment) == theirs


@pytest.mark.skipif("mabwiser-linucb" not in HERE, reason="mabwiser is not installed")
def test_where_the_formula_of_mabwiser_is_wrong() -> None:
    """The width of an arm without rows is alpha sqrt(x'x / lambda); theirs is alpha sqrt(lambda x'x)."""
    from mabwiser.mab import MAB, LearningPolicy

    x = np.array([[0.6, 0.8]])
    for ridge in (0.1, 1.0, 10.0):
        mab = MAB(["a", "b"], LearningPolicy.LinUCB(alpha=1.0, l2_lambda=ridge))
        mab.fit(["a"], [0.0], x)
        ours = kb.baselines.lin_ucb(["a", "b"], ridge=ridge)
        ours.observe(["a"], x, [0.0])
        found, wanted = mab.predict_expectations(x), ours.choose(x[0], scores=True).scores
        assert found["a"] == pytest.approx(wanted[0])
        assert wanted[1] == pytest.approx(math.sqrt(1.0 / ridge))
        assert found["b"] == pytest.approx(math.sqrt(ridge))


def test_features_are_standardised_by_rows_that_are_never_played() -> None:
    environment = digits(horizon=50, seed=0)
    centre, scale = peers.standardisation(environment, "standard")
    X = environment.validation()[0]
    z = (X - centre) / scale
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-12)
    varying = X.std(axis=0) > 0
    np.testing.assert_allclose(z[:, varying].std(axis=0), 1.0)
    centre, common = peers.standardisation(environment, "centred")
    assert ((X - centre) ** 2).mean() == pytest.approx(common**2)
    hidden = kb.environments.HiddenDescriptors(seed=3, horizon=20)
    assert np.abs(peers.standardisation(hidden, "standard")[0]).max() < 0.15
    peer = peers.OursLinear(["a", "b"], alpha=1.0, ridge=1.0, centre=np.zeros(4), scale=2.0)
    assert peer.features([2.0, 4.0, -100.0, 0.0]).tolist() == [0.5, 1.0, -5.0, 0.0, 1.0]


def test_what_we_do_with_bad_input_and_that_it_is_tried() -> None:
    edges = try_edges(policy_named("KMTLUCB"))
    assert edges.nan == ("choosing raises InvalidInputError; learning raises InvalidInputError, nothing changes")
    assert edges.unknown_arm.startswith("UnknownArmError: unknown arm 'stranger'")
    assert edges.new_arm.startswith("new wins ")

    class Careless:
        """Accepts everything, and is lost after a NaN."""

        def __init__(self, arms):
            self.arms, self.lost = arms, False

        def observe(self, arms, contexts, rewards):
            self.lost |= bool(np.isnan(contexts).any())

        def choose(self, context):
            if self.lost:
                raise RuntimeError
            return peers.PeerChoice(self.arms[-1], 0, np.zeros(1))

        def add_arm(self, arm):
            self.arms.append(arm)

    edges = try_edges(Careless)
    assert edges.nan.startswith("choosing gives b; learning accepts it, then every later choice raises RuntimeError")
    assert edges.unknown_arm == "accepted in silence"
    assert edges.new_arm == "new wins 40 of 40 contexts"


def test_a_method_of_ones_own_in_an_experiment() -> None:
    method = {"name": "mine", "policy": "compare.peers:OursLinear", "alpha": 0.3, "ridge": 1.0}
    data = {
        "name": "x",
        "seeds": 1,
        "environments": [{"kind": "hidden-descriptors", "horizon": 20}],
        "methods": [method],
    }
    (cell,) = experiment_of(data).cells()
    environment, policy = cell.make()
    assert isinstance(policy, peers.OursLinear)
    assert policy.arms == environment.arms
    for wrong, words in (("no.such:Thing", "cannot be imported"), ("Nobody", "your own as package.module:Name")):
        with pytest.raises(ValueError, match=words):
            experiment_of({**data, "methods": [{"name": "mine", "policy": wrong}]})


def test_the_grid_then_the_best_on_all_seeds_and_more_later(tmp_path) -> None:
    small = {
        "peers": ("kinbandits-linucb",),
        "ours": (DEFAULT, "Uniform"),
        "grid_size": 3,
        "grid_seeds": 1,
        "horizon": 40,
    }
    plan = Plan(data=("hidden-0.5",), seeds=2, **small)
    run(plan, tmp_path, jobs=1, costs=False, stream=None)
    cells = {c.name: c.stat().st_mtime_ns for c in (tmp_path / "cells").glob("*.npz")}
    assert len(cells) == 3 + 1 + 4  # the grid, the best once more, two of ours twice
    (problem,) = read(plan, tmp_path)
    assert [len(x.finished) for x in problem.rows] == [2, 2, 2]
    title = catalogue.PEERS["kinbandits-linucb"].title
    assert problem.tried == {title: (3, 12)}
    (more,) = read(Plan(data=("hidden-0.5",), seeds=2, **{**small, "grid_size": 4}), tmp_path)
    assert more.tried == {title: (3, 12)}
    one_more = Plan(data=("hidden-0.5",), seeds=2, **{**small, "grid_size": 4})
    assert [n for _, _, n in missing(one_more, tmp_path)] == [1], "one setting of the grid, on one seed"
    assert not list(missing(plan, tmp_path))
    write_page(tmp_path / "page.md", plan, [more], [], "command", "figure.png")
    assert f"Settings of the grid that were tried: {title} 3 of 12." in (tmp_path / "page.md").read_text()
    # The setting shown is the one with the least regret on the first seed.
    found = {}
    for s in plan.tried("kinbandits-linucb", "hidden-0.5"):
        e = kb.environments.HiddenDescriptors(seed=0, similarity=0.5, horizon=40)
        policy = policy_named(catalogue.PEERS["kinbandits-linucb"].policy).for_environment(e, seed=0, **s)
        found[str(s)] = float(kb.simulate(policy, e)["expected_regret"].sum())
    row = problem.row(catalogue.PEERS["kinbandits-linucb"].title)
    assert row is not None
    assert row.regret[0] == pytest.approx(min(found.values()))
    assert row.peer is None
    # More seeds in the same directory: what is there stays.
    run(Plan(data=("hidden-0.5",), seeds=3, **small), tmp_path, jobs=1, costs=False, stream=None)
    after = {c.name: c.stat().st_mtime_ns for c in (tmp_path / "cells").glob("*.npz")}
    assert len(after) == len(cells) + 3
    assert cells.items() <= after.items()


def test_our_default_is_written_out_and_is_what_nothing_given_means() -> None:
    """Cells are kept by what a method says of itself: another default kernel must make another cell."""
    experiment = Plan(data=("hidden-0.5",), ours=(DEFAULT,)).final("hidden-0.5", {}, None)
    (method,) = experiment.methods
    assert method.settings["context_kernel"]["type"] == "WithLinear"
    e = experiment.environments[0]
    policy = method.make(e, e.make(0), seed=0)
    assert repr(policy.get_params()) == repr(kb.KMTLUCB(policy.arms, seed=0).get_params())


def test_costs_are_measured_once_in_a_process_of_their_own(tmp_path) -> None:
    plan = Plan(data=("hidden-0.5",), peers=(), ours=("uniform",), seeds=1, horizon=30)
    (cell,) = plan.final("hidden-0.5", {}, None).cells()
    cost = cost_of(cell, tmp_path)
    assert 0.0 < cost["cpu_ms"] < 1000.0
    assert cost["rounds"] == 30
    assert cost_of(cell, tmp_path) == cost


def problem() -> Standings:
    ours = MethodRow(DEFAULT, None, "out of the box", np.array([10.0, 20.0, 30.0]), 0.5, 1.0)
    worse = MethodRow("Slow", "coba", "alpha 1", np.array([11.0, 19.0, np.nan]))
    better = MethodRow("Fast", "river", "alpha 1", np.array([9.0, 8.0, 7.0]))
    return Standings("digits", "Digits", 100, 10, (better, worse, ours), {})


def test_numbers_of_the_page() -> None:
    assert rows(problem())[1][2:6] == ["15.0 ± 5.7", "2", "1 of 2", "-"]
    assert rows(problem())[2][4:] == ["-", "0.50", "1.0"]
    (verdict,) = verdicts(problem())
    assert "20.0 against 8.0 of Fast (3 seeds, ours lower in 0)." in verdict
    assert "**It is beaten by Fast.**" in verdict, "of Slow one seed is missing, and on the others it is no better"
    ahead = MethodRow(DEFAULT, None, "out of the box", np.array([1.0, 2.0, 9.0]))
    only = MethodRow("Slow", "coba", "alpha 1", np.array([np.nan, 3.0, np.nan]))
    (verdict,) = verdicts(Standings("digits", "Digits", 100, 10, (ahead, only), {}))
    assert "2.0 against 3.0 of Slow (1 seed, ours lower in 1). No peer beats it." in verdict
    never = MethodRow("Slow", "coba", "alpha 1", np.full(3, np.nan))
    assert not list(verdicts(Standings("digits", "Digits", 100, 10, (ahead, never), {})))


def test_the_page_says_first_where_we_are_beaten() -> None:
    told = "\n".join(summary([problem()]))
    assert told.startswith("Our default, with nothing set, is beaten on 1 of 1 problems:")
    assert "- Digits: 20.0 against 8.0 of Fast (3 seeds, ours lower in 0)" in told
    assert "Slow" not in told.partition("Final regret")[0], "on the seeds that both have it is no better"
    assert "| Digits | 100 | 20 | **8** (Fast) | - | - | - | 0.50 |" in told
    ours = MethodRow(DEFAULT, None, "out of the box", np.array([1.0, 2.0]))
    before = MethodRow("Old", "river", "alpha 1", np.empty(0), 0.2, 0.1, (3.0, 0.5, 10))
    known = Standings("digits", "Digits", 100, 10, (ours, before), {})
    assert summary([known])[0] == "Our default, with nothing set, is beaten on none of the 1 problems below."
    assert rows(known)[1][2:5] == ["3.0 ± 0.5", "10*", "-"]
    few = replace(problem(), rows=problem().rows[1:])
    assert "| Digits | 100 | **20** | 15 (Slow; 2 seeds, ours 15) |" in "\n".join(summary([few]))


def test_the_page_says_which_rows_have_fewer_seeds(tmp_path) -> None:
    write_page(tmp_path / "page.md", Plan(peers=()), [problem()], [], "command", "figure.png")
    told = "- **Seeds**: 3 in every row but these.\n  - 2 seeds on digits: Slow.\n"
    assert told in (tmp_path / "page.md").read_text()
    kept = [replace(x, settings=x.settings + ", former default") for x in problem().rows]
    write_page(tmp_path / "page.md", Plan(peers=()), [replace(problem(), rows=tuple(kept))], [], "", "")
    assert f"- **Played with a former default**: {DEFAULT} on digits.\n" in (tmp_path / "page.md").read_text()


def test_the_page_says_what_propensities_cost() -> None:
    ours = MethodRow(DEFAULT, None, "", np.array([10.0, 10.0]))
    near, far = (MethodRow(INVERSE, None, "", np.array([9.0, x])) for x in (13.0, 16.0))
    told = {n: Standings(n, n, 100, 10, (ours, row), {}) for n, row in (("Near", near), ("Far", far))}
    assert "within 15 % of the default's on all 1 problems" in "\n".join(propensities([told["Near"]]))
    both = "\n".join(propensities(list(told.values())))
    assert "more than 15 % above the default's on Far\n" in both
    assert "| Near | 10 | 11 | 1.10 | 1 of 2 |" in both
    assert not propensities([problem()])


def test_settings_and_means_of_earlier_runs(tmp_path) -> None:
    """Chosen settings need no grid; a method that is not run again stands with its recorded mean."""
    setting = {"alpha": 0.1, "ridge": 1.0, "scaling": "centred"}
    (tmp_path / "chosen.json").write_text(json.dumps({"hidden-0.5": {"kinbandits-linucb": setting}}))
    plan = Plan(
        data=("hidden-0.5",), peers=("kinbandits-linucb",), ours=("uniform",), horizon=20, seeds=1,
        chosen=tmp_path / "chosen.json",
    )  # fmt: skip
    assert plan.grid("hidden-0.5") is None
    run(plan, tmp_path, jobs=1, costs=False, stream=None)
    old = {"title": "Old", "peer": "river", "settings": "alpha 1", "mean": 0.5, "sd": None, "seeds": 3}
    (tmp_path / "recorded.json").write_text(json.dumps({"hidden-0.5": [old]}))
    (found,) = read(plan, tmp_path, tmp_path / "recorded.json")
    assert found.rows[0].title == "Old"
    assert found.rows[1].settings == "alpha 0.1, ridge 1.0, centred"
    # What was run is kept seed by seed, so that later runs are paired with it.
    record([found], tmp_path / "recorded.json")
    more = replace(plan, seeds=2)
    (again,) = read(more, tmp_path / "elsewhere", tmp_path / "recorded.json")
    assert [x.title for x in again.rows] == [x.title for x in found.rows]
    assert again.rows[1].regret[0] == pytest.approx(found.rows[1].regret[0], abs=0.01)
    assert math.isnan(again.rows[1].regret[1])


def test_clicks_and_what_is_only_for_them() -> None:
    plan = Plan(data=("clicks-50-3",))
    e = plan._make("clicks-50-3")
    assert (len(e.arms), e.click_rate, e.horizon) == (50, 0.03, 1000)
    assert {s["scaling"] for s in plan.tried("river", "clicks-50-3")} == {"standard"}
    assert {s["scaling"] for s in plan.tried("NeuralUCB", "clicks-50-3")} == {"centred"}, "it has no other"
    assert "bayesianbandits-logistic-ts" not in plan.left_out("clicks-50-3")
    if "bayesianbandits-logistic-ts" in HERE:
        assert "0 and 1" in plan.left_out("hidden-0")["bayesianbandits-logistic-ts"]


@pytest.mark.parametrize("peer", LINEAR)
def test_peers_play_from_no_rows_at_all(peer: str) -> None:
    e = kb.environments.Clicks(3, horizon=20)
    assert len(played(of(peer, e), e)) == 20


def test_a_peer_that_is_not_run_is_told_with_its_cost(tmp_path) -> None:
    plan = Plan(data=("clicks-12-3",), peers=("kinbandits-linucb",), ours=("uniform",), seeds=1, horizon=60)
    run(plan, tmp_path, first=True, stream=None)
    run(replace(plan, peers=()), tmp_path, jobs=1, costs=False, stream=None)
    (found,) = read(plan, tmp_path)
    assert [x.title for x in found.rows] == ["Uniform"]
    write_page(tmp_path / "page.md", plan, [found], [], "command", "figure.png")
    told = r"Not run here: LinUCB of ours, features of peers \(\d+ ms in each of the first 50 rounds\)."
    assert re.search(told, (tmp_path / "page.md").read_text())


def test_the_figure(tmp_path) -> None:
    write_figure(tmp_path / "none.png", [problem()])
    assert not (tmp_path / "none.png").exists(), "one cost only: there is nothing to compare"
    priced = Standings(*(list(vars(problem()).values())[:4]), tuple(replace(x, cpu_ms=0.3) for x in problem().rows), {})
    write_figure(tmp_path / "f.png", [priced] * 3)
    assert (tmp_path / "f.png").read_bytes()[:4] == b"\x89PNG"


def test_peers_too_large_are_left_out_with_a_reason() -> None:
    entry = catalogue.PEERS["coba"]
    assert entry.too_large(10, 64) is None
    assert "2,570 rows" in str(entry.too_large(10, 256))
    assert catalogue.PEERS["river"].too_large(10, 784) is None


@pytest.mark.parametrize("wrong", [{"data": ("nothing",)}, {"peers": ("nobody",)}, {"ours": ("nobody",)}, {"data": ()}])
def test_plans_are_checked(wrong) -> None:
    with pytest.raises(ValueError, match=r"there is no|at least one"):
        Plan(**wrong)


@pytest.mark.slow
def test_the_command(tmp_path, capsys, monkeypatch) -> None:
    names = ",".join([n for n in ("river", "vowpalwabbit", "kinbandits-linucb") if n in HERE])
    arguments = ["--quick", "--data", "hidden-0.5", "--peers", names, "--ours", f"{DEFAULT},Uniform"]
    arguments += ["--horizon", "30", "--no-costs", "--jobs", "1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["compare", *arguments])
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--json"])
    assert stop.value.code == 0
    data = json.loads(capsys.readouterr().out)
    assert {x["title"] for x in data["data"][0]["rows"]} >= {DEFAULT, "Uniform"}
    page = (tmp_path / "comparison.md").read_text()
    assert "python benchmarks/compare --quick --data hidden-0.5" in page
    assert "## Hidden descriptors, similarity 0.5" in page
    assert "NaN in a context" in page
    assert not (tmp_path / "comparison.png").exists(), "without costs there is nothing to draw"
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--page-only"])
    assert stop.value.code == 0
    assert "Page: " in capsys.readouterr().out
