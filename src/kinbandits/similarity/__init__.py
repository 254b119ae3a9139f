"""Arm similarity k_Z, as frozen values.

A similarity says how much arm a may learn from arm b: an (N, N) positive semidefinite matrix. Some are
known beforehand (`given`), some are read off the history (`estimated`, `adaptive`). Whatever it is, the
rest of the library sees two things: ``matrix(history)``, the definition, computed from scratch, and
``tracker(history)``, which follows a growing history at the cost of the new rows.

Notation
    N        number of arms
    K_arm    (N, N)  k_Z(a, b), the similarity matrix
    G        (N, N)  G[a, b] = sum of k'(x, x') over rows x of arm a and x' of arm b
    counts   (N,)    n_a
"""

from kinbandits.similarity.adaptive import Adaptive
from kinbandits.similarity.base import ArmInfo, Judging, Regressor, Similarity, Tracker, Weighting
from kinbandits.similarity.clusters import Clustered, block_graph, macro_graph
from kinbandits.similarity.estimated import CountOnly, Estimated, embedding_distances, nearest_similarity
from kinbandits.similarity.evidence import Evidence, FitData
from kinbandits.similarity.given import Graph, Independent, Known, Mixed, Pooled, Settled, check_psd
from kinbandits.similarity.stepwise import (
    RULE,
    SAMPLE,
    Job,
    SimilarityChoice,
    StepTracker,
    Stepwise,
    elapsed,
    milestones,
    takes_force,
)

__all__ = [
    "RULE", "SAMPLE", "Adaptive", "ArmInfo", "Clustered", "CountOnly", "Estimated", "Evidence", "FitData", "Graph",
    "Independent", "Job", "Judging", "Known", "Mixed", "Pooled", "Regressor", "Settled", "Similarity",
    "SimilarityChoice", "StepTracker", "Stepwise", "Tracker", "Weighting", "block_graph", "check_psd", "elapsed",
    "embedding_distances", "macro_graph", "milestones", "nearest_similarity", "takes_force",
]  # fmt: skip
