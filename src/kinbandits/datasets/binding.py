"""Peptides and the alleles they bind to: measurements that a user has a copy of. Nothing of them comes with us.

The file ``mhc1_binding.npz`` holds, for n measurements of 9-mers on N alleles of MHC class I, ``peptide`` (n,),
``task`` (n,) in 0..N-1, ``affinity_nM`` (n,), ``allele`` (N,) and ``pseudosequence`` (N,), 34 residues that touch a
peptide. It can be made from MHCflurry's curated data (https://github.com/openvax/mhcflurry, "data_curated"), built
on IEDB (https://www.iedb.org); both have terms of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.datasets.files import VARIABLE, directories
from kinbandits.errors import DatasetError

FILE = "mhc1_binding.npz"
RESIDUES = b"ACDEFGHIKLMNPQRSTVWY"
WEAKEST = 50_000.0  # nM, of the usual scale


@dataclass(frozen=True, eq=False)
class Peptides:
    """Measurements of how strongly peptides bind."""

    peptide: NDArray[Any]  # (n,) sequences of nine residues
    task: Indices  # (n,) numbers of alleles
    reward: Vector  # (n,) 1 - log(nM) / log(50000), from 0 (does not bind) to 1
    allele: list[str]  # (N,) names
    pseudosequence: NDArray[Any]  # (N,) what describes an allele before anything is measured

    @property
    def descriptors(self) -> Matrix:
        """Pseudosequences as numbers, (N, 34 * 20)."""
        return one_hot(self.pseudosequence)

    def of(self, *alleles: str) -> tuple[list[str], Matrix, Vector]:
        """Allele, features (n, 180) and reward of each measurement on these alleles."""
        numbers = [self.number(a) for a in alleles]
        rows = np.flatnonzero(np.isin(self.task, numbers))
        return [self.allele[t] for t in self.task[rows]], one_hot(self.peptide[rows]), self.reward[rows]

    def block(self, *alleles: str) -> tuple[Matrix, Matrix]:
        """Features (m, 180) and rewards (m, k) of the peptides that were measured on each of these alleles."""
        found: list[dict[bytes, float]] = []
        for number in map(self.number, alleles):
            rows = self.task == number
            found.append(dict(zip(self.peptide[rows].tolist(), self.reward[rows].tolist(), strict=True)))
        common = sorted(set.intersection(*map(set, found)))
        return one_hot(np.array(common)), np.array([[of[p] for of in found] for p in common])

    def most_measured(self, k: int) -> list[str]:
        """The ``k`` alleles with most measurements."""
        counts = np.bincount(self.task, minlength=len(self.allele))
        return [self.allele[i] for i in np.argsort(-counts, kind="stable")[:k]]

    def number(self, allele: str) -> int:
        """Which allele this is, counted from 0; names may leave out ``HLA-``."""
        for name in (allele, f"HLA-{allele}"):
            if name in self.allele:
                return self.allele.index(name)
        raise DatasetError(f"there is no allele {allele!r}; there are {', '.join(self.allele[:3])}, ...")


def peptides() -> Peptides:
    """The measurements in ``mhc1_binding.npz``, from ``KINBANDITS_DATA`` or the cache."""
    path = next((d / FILE for d in directories() if (d / FILE).is_file()), None)
    if path is None:
        places = " or ".join(str(d) for d in directories())
        raise DatasetError(
            f"cannot load the peptides: there is no {FILE} in {places}. It does not come with this library: "
            f"set {VARIABLE} to a directory that holds it; kinbandits.datasets.binding says what is in it and "
            "where the measurements are published"
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            task = file["task"].astype(np.intp)
            nanomolar = np.clip(file["affinity_nM"].astype(np.float64), 1.0, WEAKEST)
            names, sequences, described = file["allele"], file["peptide"], file["pseudosequence"]
    except (OSError, ValueError, KeyError) as error:
        raise DatasetError(f"{path} is damaged or is not {FILE} ({error})") from error
    if (
        not len(task) == len(nanomolar) == len(sequences)
        or len(names) != len(described)
        or task.max() >= len(names)
    ):
        raise DatasetError(f"{path} is not {FILE}: its columns do not fit together")
    reward = 1.0 - np.log(nanomolar) / np.log(WEAKEST)
    return Peptides(sequences, task, reward, [str(a) for a in names], described)


def one_hot(sequences: NDArray[Any]) -> Matrix:
    """Sequences of one length as numbers: 20 columns for each place, a 1 for its residue. Others have none.

    >>> one_hot(np.array([b"AC", b"YA"])).nonzero()[1].tolist()
    [0, 21, 19, 20]
    """
    letters = np.asarray(sequences, dtype="S").view("S1").reshape(len(sequences), -1)
    hot = letters[:, :, None] == np.frombuffer(RESIDUES, dtype="S1")
    return np.asarray(hot.reshape(len(sequences), -1), dtype=np.float64)
