"""What a policy learns beside its rows: kernel, ridge, level and unit of rewards, similarity of the arms.

A policy is rows + a `Model` + an engine. The model says how rows are seen. It is fitted at milestones from the first m
rows and from nothing else, so that rows one by one, in bulk, replayed or loaded give the same model.

One criterion judges everything (`evidence`). Kernel and ridge are judged on each arm's own rows, where neither depends
on what arms share; the similarity on the rows of all arms together. Where each constant comes from is said beside it;
figures are those of `benchmarks/noise.py`.
"""

from kinbandits.model.fit import broken, fit, start
from kinbandits.model.value import Candidate, Kind, Model, Scale, Spec
from kinbandits.model.when import following, kept, next_check

__all__ = [
    "Candidate", "Kind", "Model", "Scale", "Spec", "broken", "fit", "following", "kept",
    "next_check", "start",
]  # fmt: skip
