"""Regression for tasks without answers: what the distribution of x tells (Blanchard, Lee and Scott, 2011).

The kernel is k((P, x), (Q, x')) = k_Z(P, Q) k_X(x, x') with k_Z a Gaussian of the distance of mean embeddings, which
is the paper's estimated similarity. A task is an arm. A task that was never rewarded borrows from those whose rows lie
where its own do.

    python examples/new_tasks.py
"""

from __future__ import annotations

import numpy as np

import kinbandits as kb
from kinbandits.history import History

Array = np.ndarray


def predict_new_task(
    X: Array, y: Array, tasks: Array, X_new: Array, similarity: kb.Estimated, kernel: kb.RBF, ridge: float = 1e-3
) -> Array:
    """Answers for rows X_new of a new task, from rows X (n, d) with answers y of ``tasks`` 0, 1, ..., N - 1."""
    new = int(tasks.max()) + 1
    everyone = History.of(
        new + 1,
        np.append(tasks, np.full(len(X_new), new)),
        np.vstack([X, X_new]),
        np.append(y, np.zeros(len(X_new))),  # embeddings do not look at answers
    )
    policy = kb.KMTLUCB(
        new + 1,
        similarity=kb.Known(similarity.matrix(everyone)),
        context_kernel=kernel,
        ridge=ridge,
        rewards=None,
        weighting="per_arm",  # every task counts alike, however many rows it has
        cold_start="borrow",
    )
    policy.observe(tasks, X, y)
    return policy.predict_many(X_new, arms=[new]).mean[:, 0]


def world(seed: int, n_tasks: int, rows: int) -> tuple[Array, Array, Array]:
    """Tasks whose rows lie around their own centre, and whose answers turn with it."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-2.0, 2.0, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), rows)
    X = centres[tasks, None] * [1.0, 0.0] + rng.standard_normal((len(tasks), 2))
    return X, np.sin(centres[tasks]) * X[:, 1] + 0.05 * rng.standard_normal(len(tasks)), tasks


def main(new_tasks: int = 10) -> dict[str, float]:
    """The mean squared error on new tasks, by their distribution and with all tasks as one."""
    X, y, tasks = world(4, 30, 25)
    similarities = {"by distribution": kb.Estimated(0.3, kb.RBF(1.5)), "all tasks one": kb.Estimated(1e6)}
    errors = dict.fromkeys(similarities, 0.0)
    for seed in range(100, 100 + new_tasks):
        X_new, y_new, _ = world(seed, 1, 25)
        for name, similarity in similarities.items():
            found = predict_new_task(X, y, tasks, X_new, similarity, kb.RBF(2.0))
            errors[name] += float(((found - y_new) ** 2).mean()) / new_tasks
    return errors


if __name__ == "__main__":
    print(main())
