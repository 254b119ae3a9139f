"""How alike the arms are, as the rewards say.

Arms share a function g of the context, f_a(x) = g(x) + h_a(x). What they have in common adds the same to every arm, but
knowing g from everybody's rows is what lets one row of arm a tell h_a. So arms are taken as T = (1 - mu) I + mu B, and
then as alike as the rows say (`learn_matrix`).

Notation
    k_Z  (N, N)  similarity of the arms         T  (N, N)  (1 - mu) I + mu B, the target it is shrunk to
    B    (N, N)  what is known of the arms beforehand; 11' where nothing is
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.model.evidence import RIDGES, Fit, Rows, best, evidence
from kinbandits.model.kernel import FIRST
from kinbandits.model.value import Candidate, Kind, Model, Spec
from kinbandits.model.when import golden
from kinbandits.regression.contract import Common
from kinbandits.similarity import Learned, Similarity

LEAD = 12.0  # nats by which sharing must beat independent arms where all see one context. False leads (play chooses the
# rows: where one arm is played since the others are bad, a common part fits) stay near 8 and vanish; true ones grow
MUS = (0.5, 0.9)
SIMILARITY_ROWS = 600  # m^3 a candidate
SHRINK = 2.0  # rows that the target is worth
STEPS = 20  # of EM a fit; it goes on from the matrix in force
FEW_ARMS = 300  # above, arms without rows are not told apart while a matrix is learned
MOST_ARMS = 2000  # up to which a whole matrix is learned


def first_target(similarity: Learned, n_arms: int, kind: Kind) -> Any:
    """Before rewards have spoken: independent where all arms see one context and nothing describes them; else half
    of what they may have in common."""
    if similarity.base is None:
        return Common(n_arms, 0.5 if kind != "shared" else 0.0)
    return target(similarity.base, n_arms, 0.5)


def target(base: Similarity | None, n_arms: int, mu: float) -> Any:
    """T = (1 - mu) I + mu B."""
    if base is None:
        return Common(n_arms, mu)
    B = base.matrix(History(n_arms))
    T = mu * B
    T[np.diag_indices(n_arms)] += (1.0 - mu) * B.diagonal()
    return T


def dense(k_z: Any, arms: Indices) -> Matrix:
    """k_Z of these arms, as a matrix."""
    if isinstance(k_z, Common):
        return (1.0 - k_z.shared) * np.equal.outer(arms, arms) + k_z.shared
    return np.asarray(k_z[np.ix_(arms, arms)])


def fit_similarity(
    rows: Rows, spec: Spec, model: Model, old: Model, kind: Kind, n: int, table: list[Candidate]
) -> tuple[Any, ...]:
    """k_Z of each term: what is given, or what the rows say where it is learned (which stands in a single term)."""
    if not isinstance(spec.similarities[0], Learned):
        return old.k_z
    similarity, N = spec.similarities[0], spec.n_arms
    first = (first_target(similarity, N, kind),)
    if n < (FIRST if kind == "shared" else 6) or N == 1 or len(np.unique(rows.arms)) < 2:
        return first
    few = np.arange(len(rows.y))
    if len(few) > SIMILARITY_ROWS:
        few = few[golden(few) < SIMILARITY_ROWS / len(few)]
    few = few[np.argsort(rows.arms[few], kind="stable")]
    y, X = rows.y[few], spec.select(0, rows.X[few])
    K_X = model.kernels[0](X, X)
    seen, place, counts = np.unique(rows.arms[few], return_inverse=True, return_counts=True)
    edges = np.concatenate([[0], np.cumsum(counts)])
    own = [(K_X[a:b, a:b], y[a:b]) for a, b in pairwise(edges.tolist())]
    alone, ridge = best(own, RIDGES)
    if not math.isfinite(alone.evidence):
        return first
    table.append(Candidate("similarity: independent", 0.0))
    tried = [(0.0, 0.0, ridge)]  # mu, lead, ridge
    for mu in MUS:
        K_Z = dense(target(similarity.base, N, mu), seen)
        found, its = _climb([(K_Z[np.ix_(place, place)] * K_X, y)], ridge)
        tried.append((mu, found.evidence - alone.evidence, its))
        table.append(Candidate(f"similarity: mu = {mu:g}", tried[-1][1]))
    mu, lead, its = max(tried, key=lambda t: t[1])
    if kind == "shared" and similarity.base is None:
        if not lead > LEAD:
            return (Common(N, 0.0),)
    elif kind != "shared":
        # What is likely beforehand needs no proof: the average over what may be, by how well each explains the rows.
        weights = np.exp([t[1] - lead for t in tried]) * [(1.0 - t[0]) ** -0.5 for t in tried]
        mu = float(weights @ [t[0] for t in tried] / weights.sum())
    T = target(similarity.base, N, mu)
    if kind != "shared" or N > MOST_ARMS or lead <= 0.0:
        return (T,)
    learned, gain = learn_matrix(K_X, y, edges, seen, T, old.k_z[0], its, N)
    if learned is None:
        return (T,)
    table.append(Candidate("similarity: learned arm by arm", lead + gain))
    return (learned,)


def _climb(blocks: Sequence[tuple[Matrix, Vector]], ridge: float) -> tuple[Fit, float]:
    """The evidence at the best ridge uphill from this one, a power of ten a step."""
    top, at = evidence(blocks, ridge), ridge
    for factor in (10.0, 0.1):
        while RIDGES[0] <= at * factor * 1.001 and at * factor <= RIDGES[-1] * 1.001:
            found = evidence(blocks, at * factor)
            if found.evidence <= top.evidence:
                break
            top, at = found, at * factor
        if at != ridge:
            break
    return top, at


def learn_matrix(
    K_X: Matrix, y: Vector, edges: Indices, seen: Indices, T: Any, before: Any, ridge: float, N: int
) -> tuple[Matrix | None, float]:
    """EM of the intrinsic coregionalisation model, shrunk to the target; None where the evidence does not grow.

    The M-step is K_Z = E[F' K_X^-1 F] / (m s^2) over the latent values F of all arms at the m contexts; K_X^-1
    cancels::

        K_Z <- K_Z + K_Z (Q / s^2 - B) K_Z / m      Q[c, d] = sum over rows i of c, j of d of alpha_i alpha_j K_X[i, j]
        K_Z <- (m K_Z + SHRINK T) / (m + SHRINK),   B[c, d] = the same sum of M^-1[i, j] K_X[i, j]
               then to unit diagonal                alpha = M^-1 (y - level)

    Rows are in the order of their arms, those of the c-th arm seen from ``edges[c]`` on. Arms without rows are alike
    under a `Common` target: two stand for all of them.
    """
    m, s, counts = len(y), len(seen), np.diff(edges)
    unseen = np.setdiff1d(np.arange(N), seen)
    alike = isinstance(T, Common) and N > FEW_ARMS  # arms without rows, of which two then stand for all
    arms = np.concatenate([seen, unseen[:2] if alike else unseen])
    goal = dense(T, arms)
    again = isinstance(before, np.ndarray) and len(before) == N and not alike
    K_Z = dense(before, arms) if again else goal
    size = goal.diagonal().copy()

    def covariance(K: Matrix) -> Matrix:
        return np.asarray(np.repeat(np.repeat(K[:s, :s], counts, axis=0), counts, axis=1) * K_X)

    first = evidence([(covariance(goal), y)], ridge).evidence
    top, chosen = first, goal
    for step in range(STEPS + 1):
        M = covariance(K_Z)
        now = evidence([(M, y)], ridge)
        if now.evidence > top:
            top, chosen = now.evidence, K_Z
        if step == STEPS or not now.evidence > -math.inf:
            break
        M.reshape(-1)[:: m + 1] += ridge
        inverse = np.linalg.inv(M)
        alpha = inverse @ (y - now.level)
        G = (np.multiply.outer(alpha, alpha) / now.variance - inverse) * K_X
        sums = np.add.reduceat(np.add.reduceat(G, edges[:-1], axis=0), edges[:-1], axis=1)
        K_Z = K_Z + K_Z[:, :s] @ sums @ K_Z[:s] / m
        K_Z = (m * K_Z + SHRINK * goal) / (m + SHRINK)
        K_Z = (K_Z + K_Z.T) / 2.0
        root = np.sqrt(size / np.maximum(K_Z.diagonal(), 1e-12))
        K_Z = K_Z * np.multiply.outer(root, root)
    if chosen is goal:
        return None, 0.0
    place = np.full(N, s)
    place[arms] = np.arange(len(arms))
    whole = chosen[np.ix_(place, place)]
    if len(unseen) > len(arms) - s:
        whole[np.ix_(unseen, unseen)] = chosen[s, s + 1]
        whole[unseen, unseen] = chosen[s, s]
    return whole, top - first
