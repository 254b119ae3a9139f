"""How the sums of a model are laid out, and how many points that allows."""

from __future__ import annotations

from kinbandits.errors import InvalidInputError
from kinbandits.regression.base import RegressionSettings

MOST_SUMS = 2**25  # numbers kept per arm in all (256 MB)


def changing(settings: RegressionSettings) -> bool:
    """Whether similarity or weights change with the data, so that sums must be kept per arm."""
    return settings.weighting == "per_arm" or not all(t.similarity.fixed for t in settings.terms)


def is_joint(settings: RegressionSettings, n_arms: int) -> bool:
    """Whether sums are of the full kernel, of all arms together (else of the context kernels, per arm).

    A graph's similarity changes when an arm comes or goes, so there too context kernels are better, if they fit.
    """
    per_arm = n_arms * (len(settings.terms) * settings.budget) ** 2
    if changing(settings):
        if per_arm > MOST_SUMS:
            raise InvalidInputError(
                f"points={settings.budget} with {n_arms} arms needs {per_arm * 8 / 2**30:.1f} GB of sums per arm, "
                "because the similarity or the weights change with the data; use "
                f"points={largest_budget(settings, n_arms)} or less, or a similarity that is known with "
                'weighting="uniform"'
            )
        return False
    graph = any(t.similarity.arm_argument == "neighbours" for t in settings.terms)
    return not (graph and per_arm <= MOST_SUMS)


def largest_budget(settings: RegressionSettings, n_arms: int, sums: int = MOST_SUMS) -> int:
    """The most points there can be with that many numbers per arm: no limit, unless sums are kept per arm."""
    if not changing(settings):
        return 2**31
    return max(1, int((sums / n_arms) ** 0.5 / len(settings.terms)))
