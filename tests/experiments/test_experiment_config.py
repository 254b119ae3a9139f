"""Experiment files: what they may say, what they are told when they are wrong, and the identity of cells."""

import numpy as np
import pytest

from kinbandits._value import read_value
from kinbandits.environments import KINDS
from kinbandits.errors import InvalidInputError
from kinbandits.experiments import experiment_of, load_experiment
from kinbandits.experiments.config import policies
from kinbandits.kernels import RBF
from kinbandits.similarity import Known
from kinbandits.simulate import simulate


def plain(**changes):
    data = {
        "name": "small",
        "seeds": 2,
        "environments": [{"kind": "synthetic-news", "horizon": 5}],
        "methods": [{"name": "a", "ridge": 0.5}, {"name": "b", "similarity": {"type": "Pooled"}}],
    }
    return data | changes


def test_cells_are_all_combinations_in_order():
    cells = experiment_of(plain()).cells()
    assert [str(c) for c in cells] == [f"synthetic-news / {m} / seed {s}" for m in ("a", "b") for s in (0, 1)]
    assert len({c.id for c in cells}) == 4


def test_a_file_is_read_and_made(tmp_path):
    path = tmp_path / "news.toml"
    path.write_text(
        """
        seeds = [3, 5]
        horizon = 7
        [[environments]]
        kind = "synthetic-news"
        n_arms = 3
        [[methods]]
        name = "known"
        ridge = 0.25
        similarity = { type = "Known", kernel = { type = "RBF", precision = 2.0 }, descriptors = "environment" }
        """
    )
    experiment = load_experiment(path)
    assert experiment.name == "news"
    experiment.check()
    environment, policy = experiment.cells()[1].make()
    assert (environment.seed, environment.horizon, policy.n_arms, policy.ridge) == (5, 7, 3, 0.25)
    np.testing.assert_allclose(
        policy.similarity_matrix(), np.exp(-2.0 * (environment.theta[:, None] - environment.theta) ** 2)
    )


def test_a_method_may_be_for_some_environments_only():
    data = plain(
        environments=[{"kind": "synthetic-news", "name": "x"}, {"kind": "synthetic-news", "name": "y"}],
        methods=[{"name": "a"}, {"name": "b", "environments": ["y"]}],
    )
    cells = experiment_of(data).cells()
    assert [(c.environment.name, c.method.name) for c in cells[::2]] == [("x", "a"), ("y", "a"), ("y", "b")]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"seeds": 0}, "seeds: seeds must be at least 1"),
        ({"seeds": [1, 1]}, "seeds: seeds must be different"),
        ({"sedes": 3}, r"sedes: there is no such key; there are name, environments"),
        ({"methods": []}, "methods: List should have at least 1 item"),
        ({"methods": [{"ridge": 1.0}]}, r"methods\[0\].name: Field required"),
        ({"methods": [{"name": "m", "rigde": 1.0}]}, r"methods\[0\] \('m'\): KMTLUCB has no setting 'rigde'"),
        ({"methods": [{"name": "m", "policy": "UCB9"}]}, r"there is no policy 'UCB9'; there are .*KMTLUCB"),
        ({"methods": [{"name": "m", "policy": "no.such:Policy"}]}, "the policy 'no.such:Policy' cannot be imported"),
        ({"methods": [{"name": "m"}, {"name": "m"}]}, "two methods are called 'm'"),
        ({"methods": [{"name": "m", "environments": ["mars"]}]}, "names the environment 'mars'"),
        ({"environments": [{"kind": "casino"}]}, r"environments\[0\]: there is no environment 'casino'"),
        ({"environments": [{"kind": "synthetic-news"}] * 2}, "two environments are called"),
        ({"horizon": -1}, "horizon: Input should be greater than or equal to 1"),
        ({"environments": [{"kind": "synthetic-news", "arms": 3}]}, "environments.synthetic-news: .*no option 'arms'"),
        ({"methods": [{"name": "m", "ridge": -1.0}]}, r"methods.m: ridge must be greater than 0"),
        (
            {"methods": [{"name": "m", "context_kernel": {"type": "RFB"}}]},
            "methods.m.context_kernel has an unknown type 'RFB'; did you mean 'RBF'",
        ),
        (
            {"methods": [{"name": "m", "context_kernel": {"type": "RBF", "width": 1}}]},
            "methods.m.context_kernel: RBF has no option 'width'",
        ),
        ({"methods": [{"name": "m", "context_kernel": {}}]}, 'methods.m.context_kernel has no "type"'),
        (
            {"methods": [{"name": "m", "context_kernel": {"type": "RBF", "length_scale": 0}}]},
            "must be greater than 0",
        ),
        (
            {"methods": [{"name": "m", "policy": "gob_lin", "graph": "environment"}]},
            'methods.m.graph is "environment", but synthetic news has no graph',
        ),
    ],
)
def test_mistakes_show_before_the_work_and_name_the_key(change, text):
    with pytest.raises(InvalidInputError, match=text):
        experiment_of(plain(**change)).check()


def test_files_that_are_not_there_or_not_toml(tmp_path):
    with pytest.raises(InvalidInputError, match="there is no file"):
        load_experiment(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("seeds = ")
    with pytest.raises(InvalidInputError, match="is not TOML"):
        load_experiment(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    "change",
    [
        {"environments": [{"kind": "synthetic-news", "horizon": 6}]},
        {"environments": [{"kind": "synthetic-news", "horizon": 5, "noise": 0.1}]},
        {"methods": [{"name": "a", "ridge": 0.6}]},
        {"methods": [{"name": "a", "ridge": 0.5, "weighting": "per_arm"}]},
        {"seeds": [1]},
    ],
)
def test_whatever_changes_the_result_changes_the_identity(change):
    first = experiment_of(plain()).cells()[0].id
    assert experiment_of(plain(**change)).cells()[0].id != first
    renamed = plain(name="other", methods=[{"name": "z", "ridge": 0.5}])  # names do not
    assert experiment_of(renamed).cells()[0].id == first


def test_a_file_is_known_by_what_is_in_it(tmp_path):
    def identity(name, text):
        (tmp_path / name).write_text(text)
        data = plain(environments=[{"kind": "classification", "data": str(tmp_path / name), "target": "y"}])
        return experiment_of(data).cells()[0].id

    rows = "x,y\n0.1,a\n0.2,b\n"
    first = identity("one.csv", rows)
    (tmp_path / "sub").mkdir()
    assert identity("sub/one.csv", rows) == first
    assert identity("one.csv", rows + "0.3,a\n") != first


def test_relative_files_are_seen_from_the_toml_file(tmp_path, monkeypatch):
    (tmp_path / "rows.csv").write_text("x,y\n0.1,a\n0.2,b\n0.3,a\n")
    table = 'kind = "classification"\ndata = "rows.csv"\ntarget = "y"'
    (tmp_path / "own.toml").write_text(f'seeds = 1\n[[environments]]\n{table}\n[[methods]]\nname = "m"\n')
    monkeypatch.chdir("/")
    environment, _ = load_experiment(tmp_path / "own.toml").cells()[0].make()
    assert environment.horizon == 3


def test_values_from_tables():
    assert read_value({"type": "RBF", "precision": 0.125}, "k") == RBF(length_scale=2.0)
    known = read_value({"type": "Known", "given": [[1.0, 0.5], [0.5, 1.0]]}, "s")
    assert isinstance(known, Known)
    with pytest.raises(InvalidInputError, match="both precision and length_scale"):
        read_value({"type": "RBF", "precision": 1.0, "length_scale": 1.0}, "k")
    with pytest.raises(InvalidInputError, match="describes no arms"):
        read_value({"type": "Known", "kernel": {"type": "RBF"}, "descriptors": "environment"}, "s")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_seed_and_horizon_of_every_environment(kind, tmp_path):
    """A top-level horizon does what it says, whatever the environment; a seed in a table is refused in words."""
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"0.{i},{'ab'[i % 2]}\n" for i in range(9)))
    (tmp_path / "log.csv").write_text("arm,reward,x\n" + "".join(f"{'ab'[i % 2]},1,0.{i}\n" for i in range(9)))
    np.savez(tmp_path / "s.npz", digits_validation=[0], digits_start=[range(10)], digits_test=[range(20, 60)])
    options = {
        "classification": {"data": str(tmp_path / "rows.csv"), "target": "y"},
        "streams": {"data": "digits", "path": str(tmp_path / "s.npz")},
        "replay": {"log": str(tmp_path / "log.csv")},
    }.get(kind, {})
    table = {"kind": kind, **options}
    (cell,) = experiment_of(plain(environments=[table], horizon=4, seeds=1, methods=[{"name": "m"}])).cells()
    assert cell.make()[0].horizon == 4
    with pytest.raises(InvalidInputError, match=r"an environment has no seed of its own; write seeds = \[3\]"):
        experiment_of(plain(environments=[table | {"seed": 3}]))


SYSTEMS = {
    "uniform": {},
    "epsilon_greedy": {},
    "ucb1": {},
    "gaussian_thompson": {},
    "BetaThompson": {},
    "lin_ucb": {"exploration": {"type": "Logarithmic", "scale": 0.3}},
    "lin_ucb, thompson": {"exploration": {"type": "Thompson", "samples": 200, "scale": 0.3}},
    "lin_ucb, hybrid": {"sharing": "hybrid", "shared_columns": [0], "arm_columns": [1]},
    "kernel_ucb": {},
    "gp_ucb": {"arm_kernel": {"type": "RBF"}, "descriptors": "environment"},
    "cgp_ucb": {
        "context_kernel": {"type": "RBF"},
        "similarity": {"type": "Known", "kernel": {"type": "RBF"}, "descriptors": "environment"},
        "composition": "sum",
    },
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_plays_from_a_file(name):
    method = {"name": name, "policy": name.partition(",")[0], **SYSTEMS[name]}
    environment = {"kind": "synthetic-news", "horizon": 20}
    environment, policy = experiment_of(plain(environments=[environment], methods=[method])).cells()[0].make()
    assert len(simulate(policy, environment)) == 20
    assert "KMTLUCB" in policies()
