"""Every system can be named in an experiment file, and plays there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import InvalidInputError
from kinbandits.experiments.config import experiment_of, load_experiment, policies

FILE = """
name = "systems"
seeds = 2

[[environments]]
kind = "users"
n_users = 16
horizon = 300
graph_noise = 0.05

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

[[methods]]
name = "gob.lin"
policy = "GOBLin"
graph = "environment"
exploration = { type = "LogExploration", scale = 0.3 }
environments = ["users in 4 clusters"]

[[methods]]
name = "gob.lin.macro"
policy = "GOBLin"
graph = "environment"
clusters = "environment"
variant = "macro"
exploration = { type = "LogExploration", scale = 0.3 }
environments = ["users in 4 clusters"]

[[methods]]
name = "gob.lin.block"
policy = "GOBLin"
graph = "environment"
clusters = "environment"
variant = "block"
exploration = { type = "LogExploration", scale = 0.3 }
environments = ["users in 4 clusters"]

[[methods]]
name = "club"
policy = "CLUB"
confidence = 0.4
exploration = { type = "LogExploration", scale = 0.3 }
environments = ["users in 4 clusters"]

[[methods]]
name = "cofiba"
policy = "COFIBA"
items = "environment"
confidence = 0.3
exploration = { type = "LogExploration", scale = 0.3 }
environments = ["users in 4 clusters"]
"""


def test_every_system_plays_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "systems.toml"
    path.write_text(FILE.replace('kind = "users"\n', 'kind = "users"\nname = "users in 4 clusters"\n'))
    experiment = load_experiment(path)
    experiment.check()
    named = {m.policy for m in experiment.methods} | {"KMTLUCB", "SupKMTLUCB", "SupKernelUCB", "SupLinUCB"}
    assert named == set(policies())
    regret: dict[str, list[float]] = {}
    for cell in experiment.cells():
        environment, policy = cell.make()
        trace = kb.simulate(policy, environment)
        assert len(trace) == environment.horizon
        if isinstance(environment, kb.environments.Users):
            regret.setdefault(cell.method.name, []).append(float(np.sum(trace["expected_regret"])))
    mean = {name: np.mean(values) for name, values in regret.items()}
    assert mean["lin-ucb"] < 0.8 * mean["uniform"]
    assert mean["gob.lin.block"] < 0.8 * mean["lin-ucb"], mean  # friends who are alike, and no others
    assert max(mean[name] for name in mean if name != "uniform") < 0.9 * mean["uniform"], mean


def test_what_the_environment_does_not_have() -> None:
    data = {
        "name": "x",
        "seeds": 1,
        "environments": [{"kind": "synthetic-news"}],
        "methods": [{"name": "m", "policy": "GOBLin", "graph": "environment"}],
    }
    with pytest.raises(InvalidInputError, match="synthetic news has no graph"):
        experiment_of(data).check()
