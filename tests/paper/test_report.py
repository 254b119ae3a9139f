"""The report's own sections, the controls beside it, and the tables that pages show."""

import csv

import numpy as np
import pytest
from reproduce import controls, tables

from kinbandits.experiments import run_experiment
from kinbandits.paper import protocol
from kinbandits.paper.crossval import CrossValidation
from kinbandits.paper.presets import EST, GRID, IND, KNOWN
from kinbandits.paper.report import BETTER, REFERENCE, sections
from kinbandits.results import Results, Run, RunGroup
from kinbandits.trace import Trace

SHORT = {"seeds": 3, "horizon": 30}


def played(experiment, place):
    run_experiment(experiment, place, jobs=1)
    return Results.load(place)


def by_name(results):
    return {section.name: section for section in sections(results)}


def test_the_reference_is_the_published_one():
    runs = {key: np.array(listed.split(), dtype=float) for key, listed in REFERENCE.items()}
    assert {len(v) for (where, _), v in runs.items() if where not in ("Letter", "Synthetic news")} == {10}
    means = {key: round(float(v.mean())) for key, v in runs.items()}
    assert [means[where, EST] for where in ("Digits", "Segment", "Letter", "Pendigits", "USPS", "MNIST")] == [
        325, 150, 2319, 299, 970, 947,
    ]  # fmt: skip
    for where, times in BETTER.items():
        est, ind = runs[where, EST], runs[where, IND]
        assert len(est) == 1 or (est < ind).sum() == times, where


def test_runs_stand_beside_the_reference(tmp_path):
    found = by_name(played(protocol.paper_experiment(["synthetic", "digits"], **SHORT), tmp_path))
    rows = {(r["where"], r["method"]): r for r in found["reference"].records}
    assert len(rows) == 6
    assert rows["Digits", EST]["reference"] == 325.2
    assert rows["Digits", EST]["equal"] == "0 of 3"
    assert rows["Synthetic news", KNOWN]["reference_better"] == "8 of 10"
    assert "chosen" not in found  # the settings are the published ones
    assert found["synthetic"].figure is not None


def test_chosen_settings_stand_beside_the_published_ones(tmp_path):
    axes = {"context_precision": (GRID[4],), "embedding_precision": (GRID[2],), "similarity_precision": (GRID[9],)}
    kinds = {"estimated": axes, "independent": {"context_precision": (GRID[4],)}}
    chosen = {k: CrossValidation(a | {"ridge": (0.001,)}, np.zeros([1] * (len(a) + 1))) for k, a in kinds.items()}
    experiment = protocol.paper_experiment(["digits"], chosen={"digits": chosen}, **SHORT)
    rows = by_name(played(experiment, tmp_path))["chosen"].rows
    assert ("Digits", EST, "precision of k_X", "0.1668", "0.001") in rows
    assert ("Digits", EST, "precision of k_Z", "100", "100") in rows
    assert len(rows) == 4 + 2


def test_controls_are_compared_in_pairs(tmp_path):
    experiment = controls.controls_experiment(["digits"], **SHORT)
    results = played(experiment, tmp_path)
    cell = next(c for c in experiment.cells() if c.method.name == "counts only")
    _, policy = cell.make()
    policy.observe(["0", "1", "0"], np.eye(3, 64), [1.0, 0.0, 1.0])
    distance = 1 / 2 + 1 / 1  # counts of the two arms, nothing else
    assert policy.similarity_matrix()[0, 1] == pytest.approx(np.exp(-100 * distance))
    found = {section.name: section for section in controls.sections(results)}
    pairs = {(r["first"], r["second"]): r for r in found["counts"].records + found["learned"].records}
    one, two = (results.groups[0].finals(m) for m in ("KMTL-UCB-Est", "Kernel-UCB-Ind"))
    assert pairs["KMTL-UCB-Est", "Kernel-UCB-Ind"]["difference"] == pytest.approx((one - two).mean())
    assert ("default", "KMTL-UCB-Est") in pairs
    assert "–" not in found["points"].rows[0][3:7]
    assert {row[2] for row in found["sharing"].rows} == {"0 of 3"}
    # a method with fewer runs is left out until it is finished
    (tmp_path / "cells" / f"{cell.id}.npz").unlink()
    (group,) = controls.finished(Results.load(tmp_path))
    assert "counts only" not in group.methods
    assert len(group.seeds) == 3


def test_the_findings_are_decided_by_tests():
    """Equal by TOST, less by the interval of the pairs."""
    ten = np.arange(100.0, 110.0)
    finals = {EST: ten, controls.COUNTS: ten + 0.5, IND: ten + 9.0 + ten % 2}

    def group(name, **changed):
        runs = [
            Run(name, m, seed, Trace.of({"t": [0], "reward": [0.0], "regret": [v]}, {"arms": ["a"]}))
            for m, values in (finals | changed).items()
            for seed, v in enumerate(values)
        ]
        return RunGroup(name, tuple(runs))

    groups = [group("Digits"), group("USPS", **{controls.COUNTS: ten + 20.0, IND: ten - 8.0})]
    groups.append(group("MNIST", **{IND: ten + 9.0 * (-1.0) ** ten}))  # the interval holds 0
    wanted = [(EST, controls.COUNTS), (EST, IND)]
    same, gains = controls.findings(controls.pairs(groups, wanted))
    assert "on 2 of 3 problems: Digits, MNIST; not shown on USPS" in same
    assert "on Digits, and more on USPS, of 3 problems" in gains


def test_tables_are_written_as_they_are_shown(tmp_path):
    results = played(protocol.paper_experiment(["digits"], **SHORT), tmp_path)
    tables.write_tables(tables.tables(results), tmp_path)
    with (tmp_path / "tables" / "claims.csv").open(encoding="utf-8", newline="") as stream:
        columns, first = csv.reader(stream)
    assert "Means" not in columns
    assert first[:5] == ["Digits", f"{EST} is better than {IND}", "all runs", "0 of 3", "not enough runs"]
    written = dict(tables.run(results))
    assert written["runs made"].startswith("6, from ")
