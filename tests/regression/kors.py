"""A baseline for tests and benchmarks only: EK-UCB's idea, a dictionary sampled by KORS, at a fixed size.

KORS (Calandriello, Lazaric, Valko, 2017; used by EK-UCB, Zenati et al., 2022) lets a row into the dictionary with a
probability proportional to its estimated ridge leverage score tau, and weights it by one over that probability. A
row never leaves. The estimate and the algorithm's regression are the Nystrom ones of `budgeted`. Independent arms,
uniform weights, one context for all arms. All rows are kept, so its sums are exact: it has every advantage.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np


class KorsUCB:
    def __init__(self, n_arms, kernel, budget, seed, ridge=0.01, exploration=0.1, eps=0.5):
        self.n_arms, self.kernel, self.budget = n_arms, kernel, budget
        self.ridge, self.exploration, self.eps = ridge, exploration, eps
        self.rng = np.random.default_rng(seed)
        self.rows = [[] for _ in range(n_arms)]
        self.rewards = [[] for _ in range(n_arms)]
        self.points = [[] for _ in range(n_arms)]
        self.weights = [[] for _ in range(n_arms)]  # one over the probability of having been let in
        self.model = [None] * n_arms
        self.oversampling = 3.0  # beta of KORS: tau times this, cut at 1, is the probability

    @property
    def size(self):
        return sum(len(p) for p in self.points)

    def _refit(self, a):
        if not self.points[a]:
            self.model[a] = None
            return
        C = np.array(self.points[a])
        K = self.kernel(C, C) + 1e-9 * np.eye(len(C))
        k = self.kernel(C, np.array(self.rows[a]))
        A = np.linalg.inv(self.ridge * K + k @ k.T)
        self.model[a] = C, np.linalg.inv(K), A, A @ (k @ np.array(self.rewards[a]))

    def _leverage(self, a, x):
        """(1 + eps)/ridge (k(x,x) - k' (K W + ridge I)^-1 W k), W the weights of the dictionary, x in it."""
        X = np.array([*self.points[a], x])
        w = np.sqrt(np.array([*self.weights[a], 1.0]))
        K = self.kernel(X, X)
        inner = np.linalg.solve(w[:, None] * K * w + self.ridge * np.eye(len(X)), w * K[:, -1])
        return (1 + self.eps) / self.ridge * (1.0 - (w * K[:, -1]) @ inner)

    def observe(self, arms, contexts, rewards):
        for a, x, r in zip(arms, contexts, rewards, strict=True):
            self.rows[a].append(x)
            self.rewards[a].append(r)
            p = min(1.0, max(self.oversampling * self._leverage(a, x), 1e-9))
            if self.size < self.budget and self.rng.random() < p:
                self.points[a].append(x)
                self.weights[a].append(1.0 / p)
            self._refit(a)

    def choose(self, x):
        scores = np.full(self.n_arms, self.exploration / np.sqrt(self.ridge))
        for a, model in enumerate(self.model):
            if model is not None:
                C, P, A, w = model
                k = self.kernel(C, x[None, :])[:, 0]
                width = np.sqrt(max(0.0, 1.0 - k @ P @ k) / self.ridge + k @ A @ k)
                scores[a] = k @ w + self.exploration * width
        return SimpleNamespace(arm=int(np.argmax(scores)), context=x)

    def update(self, decision, reward):
        self.observe([decision.arm], decision.context[None, :], [reward])
