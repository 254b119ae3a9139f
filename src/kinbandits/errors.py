"""What can go wrong, by name. Every error is also a ValueError, TypeError or LookupError."""

import sys
from textwrap import shorten
from typing import Any


class KinbanditsError(Exception):
    """Common ancestor, so that ``except KinbanditsError`` catches all of ours and nothing else."""


class InvalidInputError(KinbanditsError, ValueError):
    """An argument has a value that cannot be used (NaN, wrong shape, out of range)."""


class InvalidTypeError(KinbanditsError, TypeError):
    """An argument is of a kind that cannot be used."""

    def __init__(self, message: str = "") -> None:
        super().__init__(shorten(message, 600, placeholder=" ..."))  # what is shown may be a table, or a long list


class UnknownArmError(KinbanditsError, LookupError):
    """An arm that this policy does not have (any more)."""


class UnknownDecisionError(KinbanditsError, LookupError):
    """A decision that this policy never made, has forgotten, or has declared void."""


class RewardConflictError(KinbanditsError, ValueError):
    """A second reward of another value for the same decision."""


class StaleDecisionError(KinbanditsError, ValueError):
    """Numbers of a decision were asked for after the policy had learned more."""


class HorizonReachedError(KinbanditsError, ValueError):
    """A policy with a fixed horizon was asked for more decisions than that."""


class ConcurrentUseError(KinbanditsError, ValueError):
    """A policy was used by a second thread while one was inside it."""


class NotPositiveSemidefiniteError(KinbanditsError, ValueError):
    """A similarity matrix has an eigenvalue below zero."""


class SingularMatrixError(KinbanditsError, ValueError):
    """The kernel matrix could not be factorised, even with jitter."""


class FormatError(KinbanditsError, ValueError):
    """A saved file is damaged, foreign, or of a version this release cannot read."""


class MissingFileError(FormatError, FileNotFoundError):
    """There is no such file, or no such folder to write to."""

    __str__ = Exception.__str__  # the message alone, without errno


class MissingPackageError(KinbanditsError, LookupError, ImportError):
    """Something was asked for that needs a package which is not installed."""


class DatasetError(KinbanditsError, LookupError):
    """A data set could not be found, or what was found is damaged."""


class ContractError(KinbanditsError, ValueError):
    """An object of yours (an environment, say) does not keep the contract it is used under."""


class NumericalWarning(UserWarning):
    """The numbers needed help (jitter was added), and the result is a little different for it."""


class SimulationWarning(UserWarning):
    """A run starts from what a policy has learned before."""


class LogWarning(UserWarning):
    """A log has a column, or a gap, that would mislead; the warning says which."""


class ChangeWarning(UserWarning):
    """The rewards changed so much that earlier rows were dropped; the warning says which."""


class BudgetWarning(UserWarning):
    """The dictionary of the budgeted engine is too small for the kernel; the warning names a size that would do."""


def package(name: str, wanted_by: str, install: str = "") -> Any:
    """An optional package; where it is missing, the error says what to install.

    >>> package("no_such_thing", "figures need", "'kinbandits[plot]'")
    Traceback (most recent call last):
    kinbandits.errors.MissingPackageError: figures need no_such_thing; install it with: pip install ...
    """
    try:
        __import__(name)
    except ImportError as error:
        top = name.partition(".")[0]
        raise MissingPackageError(f"{wanted_by} {top}; install it with: pip install {install or top}") from error
    return sys.modules[name]
