"""Which peptide to measure next? Alleles are tasks, peptides are candidates; from data to decision.

    KINBANDITS_DATA=folder python examples/peptides.py [--rounds 200] [--seeds 3] [--figures docs]

A round is an experiment: an allele of MHC class I is given, one of its peptides is chosen, and how strongly it
binds is measured. The measurements are a user's own copy (`kinbandits.datasets.peptides` says what is in the file
and where they are published). Three policies are compared on the same rounds: tasks apart, the default, and the
default that is told the alleles' pseudosequences. Then an allele comes that nobody has measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import kinbandits as kb
from kinbandits.environments import MeasuredTasks

STRONG = 1.0 - np.log(50.0) / np.log(50_000.0)  # the reward of 50 nM, a strong binder


def game(data: kb.datasets.Peptides, alleles: list[str], seed: int, rounds: int, most: int) -> MeasuredTasks:
    """Rounds of these alleles, with up to ``most`` random peptides each."""
    rng, tasks, X, y = np.random.default_rng(seed), [], [], []
    for allele in alleles:
        names, features, rewards = data.of(allele)
        rows = rng.permutation(len(names))[:most]
        tasks += [allele] * len(rows)
        X.append(features[rows])
        y.append(rewards[rows])
    described = data.descriptors[[data.number(a) for a in alleles]]
    return MeasuredTasks(tasks, np.concatenate(X), np.concatenate(y), described, rounds, seed, title="peptides")


def policies(environment: MeasuredTasks) -> dict[str, kb.KMTLUCB]:
    """Those that are compared, by name."""
    told = kb.Adaptive(base=kb.Known(descriptors=environment.descriptors))
    return {
        "tasks apart": kb.KMTLUCB(environment.arms, similarity=kb.Independent()),
        "default": kb.KMTLUCB(environment.arms),
        "default, told pseudosequences": kb.KMTLUCB(environment.arms, similarity=told),
    }


def newcomer(
    data: kb.datasets.Peptides, alleles: list[str], new: str, seed: int, most: int
) -> dict[str, list[float]]:
    """Rewards of the first ten peptides of an allele that comes late, for tasks apart and for pseudosequences."""
    environment = game(data, alleles, seed, 150, most)
    offer = game(data, [new], seed, 1, most)
    descriptor = data.descriptors[data.number(new)]
    found = {}
    for name, policy in policies(environment).items():
        kb.simulate(policy, environment)
        policy.add_arm(new, **({"descriptor": descriptor} if "told" in name else {}))
        left, rewards = np.arange(len(offer.rewards)), []
        for _ in range(10):  # a peptide is not measured twice
            decision = policy.choose(offer.contexts[left], task=new)
            rewards.append(float(offer.rewards[left[decision.index]]))
            policy.update(decision, rewards[-1])
            left = np.delete(left, decision.index)
        found[name] = rewards
    return found


def main(rounds: int = 200, seeds: int = 3, most: int = 800, figures: str | None = None) -> dict[str, Any]:
    data = kb.datasets.peptides()
    alleles = data.most_measured(8)
    print(f"{len(data.reward)} measurements, {len(data.allele)} alleles; played: {', '.join(alleles)}\n")
    regret: dict[str, list[np.ndarray]] = {}
    strong: dict[str, list[float]] = {}
    for seed in range(seeds):
        environment = game(data, alleles, seed, rounds, most)
        played = policies(environment)
        for name, policy in played.items():
            trace = kb.simulate(policy, environment)
            regret.setdefault(name, []).append(trace.cumulative_regret)
            strong.setdefault(name, []).append(float((trace["reward"] > STRONG).mean()))
    print("| policy | regret | rounds with a strong binder |\n|---|---|---|")
    for name, curves in regret.items():
        last = [curve[-1] for curve in curves]
        print(f"| {name} | {np.mean(last):.1f} | {100 * np.mean(strong[name]):.0f} % |")
    policy = played["default, told pseudosequences"]
    print(f"\n{policy.similarity_report(complete=False)}")
    round = next(environment.rounds())
    decision = policy.choose(round.context, task=round.candidates[0], scores=True)
    print(f"\nfor {decision.arm}: peptide {decision.index} of {len(round.candidates)}, mean {decision.mean:.2f}")
    print(policy.explain(decision))
    late = [newcomer(data, alleles[:5] + alleles[6:], alleles[5], seed, most) for seed in range(seeds)]
    print(f"\nfirst ten peptides of {alleles[5]}, which comes late (mean reward):")
    first = {name: np.mean([found[name] for found in late], axis=0) for name in late[0]}
    for name, rewards in first.items():
        print(f"| {name} | {rewards[0]:.2f} | {rewards[:3].mean():.2f} | {rewards.mean():.2f} |")
    if figures is not None:
        best = {name: np.mean([np.maximum.accumulate(found[name]) for found in late], axis=0) for name in first}
        draw(Path(figures), regret, best, policy)
    return {
        "regret": {name: float(np.mean([c[-1] for c in curves])) for name, curves in regret.items()},
        "first": first,
    }


def draw(folder: Path, regret: dict[str, Any], best: dict[str, Any], policy: kb.KMTLUCB) -> None:
    """Regret over rounds, the newcomer's first peptides, and how alike tasks were found to be."""
    from kinbandits.plotting import OKABE_ITO, canvas, plot_style

    with plot_style():
        figure, axes = canvas(columns=3, rows=1, width=10.0, height=3.4)
        regrets, newcomers, similarity = axes[0]
        for color, (name, curves) in zip(OKABE_ITO, regret.items(), strict=False):
            mean, error = np.mean(curves, axis=0), np.std(curves, axis=0) / np.sqrt(len(curves))
            rounds = 1 + np.arange(len(mean))
            regrets.plot(rounds, mean, color=color, label=name)
            regrets.fill_between(rounds, mean - error, mean + error, color=color, alpha=0.2, linewidth=0)
            newcomers.plot(1 + np.arange(10), best[name], color=color, marker="o", markersize=3)
        regrets.set(xlabel="round", ylabel="regret")
        regrets.legend(frameon=False, fontsize=8)
        newcomers.set(xlabel="peptides measured of a new allele", ylabel="best reward so far", ylim=(0.0, 1.0))
        names = [str(a).removeprefix("HLA-") for a in policy.arms]
        image = similarity.imshow(policy.similarity_matrix(), cmap="Blues", vmin=0.0, vmax=1.0)
        similarity.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
        similarity.set_yticks(range(len(names)), names, fontsize=7)
        similarity.set_title("similarity in force", fontsize=9)
        figure.colorbar(image, ax=similarity, shrink=0.8)
        figure.savefig(folder / "peptides.png", dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=int, default=800, help="peptides of an allele")
    parser.add_argument("--figures", default=None, help="a folder to draw in")
    main(**vars(parser.parse_args()))
