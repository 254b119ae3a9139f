"""``kinbandits theory``: numbers from real runs, five figures, one page that opens offline."""

import json
import re

import numpy as np
import pytest

import kinbandits as kb
from kinbandits import theory
from kinbandits.cli import main
from kinbandits.environments import RKHSProblem, SyntheticNews
from kinbandits.paper import theory_runs
from kinbandits.paper.theory_page import SimilarityCurves, Widths, WrongSimilarity
from kinbandits.paper.theory_runs import Size, growth, log_log_slope, rows_of


def test_similarity_curves_fall_and_meet():
    curves = SimilarityCurves(n_arms=(2, 5), rows=40)
    assert (np.diff(curves.log_g, axis=1) <= 1e-9).all()
    assert (np.diff(curves.bound, axis=1) <= 1e-6).all()
    np.testing.assert_allclose(curves.log_g[0, -1], curves.log_g[1, -1])
    assert curves.log_g[1, 0] > curves.log_g[0, 0] + 1  # strangers: more arms, more to learn


def test_growth_reads_a_trace():
    """Rows, log g and bounds of a trace agree with those of the policy that made it."""
    problem = RKHSProblem(seed=2, mu=0.6, horizon=60, n_arms=3)
    policy = theory_runs.kmtl_for(problem, 0.2)
    trace = kb.simulate(policy, problem, numbers=True)
    arms, X = rows_of(trace, problem)
    np.testing.assert_array_equal(X, policy.regression.history.contexts)
    np.testing.assert_array_equal(arms, policy.regression.history.arms)
    found = growth(trace, problem, problem.similarity_matrix, problem.context_kernel, 0.2, problem.norm, points=5)
    assert found.t[-1] == 60
    np.testing.assert_allclose(found.log_g[-1], policy.log_det(), rtol=1e-8)
    assert (found.log_g <= found.corollary_1).all()
    assert (found.log_g <= found.theorem_2 * (1 + 1e-9)).all()
    assert (found.sum_squared_width <= found.determinant_lemma).all()
    np.testing.assert_allclose(
        found.self_normalised[-1],
        theory.self_normalised_bound(60, theory_runs.DELTA, 0.2, problem.norm, 1.0, policy.log_det()),
    )


def test_rows_of_shared_contexts_and_of_a_foreign_environment():
    env = SyntheticNews(seed=0, horizon=30)
    trace = kb.simulate(kb.KMTLUCB(env.arms), env, 20)
    arms, X = rows_of(trace, env)
    assert X.shape == (20, 2)
    assert len(arms) == 20
    with pytest.raises(ValueError, match="the trace has 20 rows, the environment only 5"):
        rows_of(trace, SyntheticNews(seed=0, horizon=5))


def test_widths_lie_between_their_bounds():
    found = Widths(horizon=40)
    for run in found.runs:
        assert (run.squared <= found.upper * (1 + 1e-9)).all()
        assert (run.squared >= run.lower - 1e-9).all()
        assert (run.lower >= run.printed - 1e-12).all()
        assert run.lower[0] > 0  # at least in the first round it says something


def test_slopes():
    t = np.arange(1.0, 2001.0)
    np.testing.assert_allclose(log_log_slope(t), 1.0)
    np.testing.assert_allclose(log_log_slope(5 * t**0.5), 0.5)
    assert np.isnan(log_log_slope(np.zeros(10)))


@pytest.mark.slow
def test_the_command_writes_a_page_that_opens_offline(tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["theory", "--horizon", "40", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "t"), "--json"])
    assert not exit_.value.code
    printed = json.loads(capsys.readouterr().out)
    numbers = printed["numbers"]
    assert numbers["Theorem 1 bound at T"] > numbers["horizon T"] == 40
    assert numbers["regret at mu = 0: KMTL-UCB"] == numbers["regret at mu = 0: Independent"]
    page = (tmp_path / "t" / "index.html").read_text()
    assert len(re.findall(r"<img src=\"data:image/svg", page)) == 6
    assert not re.search(r"(src|href)=\"https?:", page)
    for name in ("similarity", "growth", "regret", "widths", "effect", "wrong"):
        assert (tmp_path / "t" / "figures" / f"{name}.png").stat().st_size > 10_000
        assert f'id="{name}"' in page


def test_the_size_is_what_is_run():
    runs = theory_runs.RegretRuns(Size(horizon=40, seeds=2))
    assert runs.sup.shape == runs.kmtl.shape == runs.proved.shape == (2, 40)
    assert [sum(s) + n for s, n in zip(runs.stages, runs.settled, strict=True)] == [40, 40]


def test_theorem_1_is_drawn_with_the_rows_and_the_delta_of_its_own_algorithm():
    runs = theory_runs.RegretRuns(Size(horizon=40, seeds=1))
    problem = theory_runs.hard_problem(0, 40)
    sup = theory_runs.sup_for(problem, runs.ridge)
    trace = kb.simulate(sup, problem)
    assert sup.guarantee == pytest.approx(1 - theory_runs.DELTA)
    arms, X = rows_of(trace, problem)
    K = problem.similarity_matrix[np.ix_(arms, arms)] * problem.context_kernel(X, X)
    assert runs.sup_log_g == pytest.approx(theory.log_g(K, runs.ridge))
    bound = theory.regret_bound(40, 3, theory_runs.DELTA, runs.ridge, problem.norm, 1.0, runs.sup_log_g)
    assert runs.theorem_1 == pytest.approx(bound)
    assert runs.sup[0, -1] <= bound
    assert runs.proved[0, -1] <= runs.growth.self_normalised[-1] < bound
    assert runs.missed == 0


def test_a_wrong_similarity_costs_norm_and_bound():
    wrong = WrongSimilarity(Size(horizon=30, seeds=1), true=0.6, used=(0.0, 0.6, 0.95))
    assert wrong.inflation[1] == pytest.approx(1.0)
    assert wrong.inflation[0] > 1.0
    assert wrong.inflation[2] > wrong.inflation[0]
    assert wrong.bound[1] < wrong.bound[0]  # taken for strangers: a larger norm and a larger log g
    assert (wrong.proved <= wrong.bound).all()
