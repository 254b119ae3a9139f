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
policy = "Uniform"

[[methods]]
name = "epsilon-greedy"
policy = "EpsilonGreedy"
environments = ["news"]

[[methods]]
name = "ucb1"
policy = "UCB1"
environments = ["news"]

[[methods]]
name = "gaussian thompson"
policy = "GaussianThompson"
environments = ["news"]

[[methods]]
name = "beta thompson"
policy = "BetaThompson"
environments = ["news"]

[[methods]]
name = "linear thompson"
policy = "LinUCB"
environments = ["news"]
exploration = { type = "Thompson", samples = 200, scale = 0.3 }

[[methods]]
name = "lin-ucb"
policy = "LinUCB"
exploration = { type = "LogExploration", scale = 0.3 }

[[methods]]
name = "hybrid"
policy = "LinUCB"
sharing = "hybrid"
shared_columns = [0]
arm_columns = [1]
environments = ["news"]

[[methods]]
name = "kernel-ucb"
policy = "KernelUCB"
environments = ["news"]

[[methods]]
name = "gp-ucb"
policy = "GPUCB"
arm_kernel = { type = "RBF" }
descriptors = "environment"
environments = ["news"]

[[methods]]
name = "cgp-ucb"
policy = "CGPUCB"
context_kernel = { type = "RBF" }
similarity = { type = "Known", kernel = { type = "RBF" }, descriptors = "environment" }
composition = "sum"
norm_bound = 1.0
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
        "methods": [{"name": "m", "policy": "GOBLin", "graph": "environment"}],
    }
    with pytest.raises(InvalidInputError, match="synthetic news has no graph"):
        experiment_of(data).check()
