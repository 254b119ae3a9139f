"""Every system can be named in an experiment file, and plays there."""

from __future__ import annotations

from pathlib import Path

import pytest

import kinbandits as kb
from kinbandits.errors import InvalidInputError
from kinbandits.experiments.config import experiment_of, load_experiment, policies

FILE = """
name = "systems"
seeds = 2

[[environments]]
kind = "synthetic-news"
name = "news"
horizon = 40

[[methods]]
name = "uniform"
policy = "uniform"

[[methods]]
name = "epsilon-greedy"
policy = "epsilon_greedy"
environments = ["news"]

[[methods]]
name = "ucb1"
policy = "ucb1"
environments = ["news"]

[[methods]]
name = "gaussian thompson"
policy = "gaussian_thompson"
environments = ["news"]

[[methods]]
name = "beta thompson"
policy = "BetaThompson"
environments = ["news"]

[[methods]]
name = "linear thompson"
policy = "lin_ucb"
environments = ["news"]
exploration = { type = "Thompson", samples = 200, scale = 0.3 }

[[methods]]
name = "lin-ucb"
policy = "lin_ucb"
exploration = { type = "Logarithmic", scale = 0.3 }

[[methods]]
name = "hybrid"
policy = "lin_ucb"
sharing = "hybrid"
shared_columns = [0]
arm_columns = [1]
environments = ["news"]

[[methods]]
name = "kernel-ucb"
policy = "kernel_ucb"
environments = ["news"]

[[methods]]
name = "gp-ucb"
policy = "gp_ucb"
arm_kernel = { type = "RBF" }
descriptors = "environment"
environments = ["news"]

[[methods]]
name = "cgp-ucb"
policy = "cgp_ucb"
context_kernel = { type = "RBF" }
similarity = { type = "Known", kernel = { type = "RBF" }, descriptors = "environment" }
composition = "sum"
environments = ["news"]
"""


def test_systems_play_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "systems.toml"
    path.write_text(FILE)
    experiment = load_experiment(path)
    experiment.check()
    for cell in experiment.cells():
        environment, policy = cell.make()
        assert len(kb.simulate(policy, environment)) == environment.horizon
    assert {"KMTLUCB"} < set(policies())


def test_what_the_environment_does_not_have() -> None:
    data = {
        "name": "x",
        "seeds": 1,
        "environments": [{"kind": "synthetic-news"}],
        "methods": [{"name": "m", "policy": "gob_lin", "graph": "environment"}],
    }
    with pytest.raises(InvalidInputError, match="synthetic news has no graph"):
        experiment_of(data).check()
