"""What is known about each data set of the paper before it is read. A new data set is a new `Entry` here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Entry:
    """What is known about a data set before it is read."""

    name: str  # as in `load`
    rows: int  # and features, and classes: what any copy must have
    features: int
    classes: int
    class_counts: tuple[int, ...]  # rows of each class
    openml: int | None  # the number of the data set at OpenML
    scaling: Literal["raw", "minmax"]  # how the paper's experiments scale the features (`Dataset.features`)
    factor: float
    horizon: int  # T of the paper's experiments
    range: tuple[float, float]  # of the published values
    note: str  # what it is, in a few words


_LETTERS: tuple[int, ...] = (789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792)
_LETTERS += (783, 753, 803, 783, 758, 748, 796, 813, 764, 752, 787, 786, 734)

CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "digits", 1797, 64, 10, (178, 182, 177, 183, 181, 182, 181, 179, 174, 180),
            None, "raw", 1.0, 1250, (0, 16), "handwritten digits, 8 x 8 (the test part of optdigits)",
        ),
        Entry(
            "letter", 20000, 16, 26, _LETTERS,
            6, "minmax", 1.0, 4000, (0, 15), "printed capital letters, 16 statistics of the image",
        ),
        Entry(
            "mnist", 70000, 784, 10, (6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958),
            554, "raw", 1.0 / 255.0, 4000, (0, 255), "handwritten digits, 28 x 28",
        ),
        Entry(
            "optdigits", 5620, 64, 10, (554, 571, 557, 572, 568, 558, 558, 566, 554, 562),
            28, "raw", 1.0, 4000, (0, 16), "handwritten digits, 8 x 8, all of it",
        ),
        Entry(
            "pendigits", 10992, 16, 10, (1143, 1143, 1144, 1055, 1144, 1055, 1056, 1142, 1055, 1055),
            32, "raw", 1.0, 4000, (0, 100), "handwritten digits, eight points along the pen's way",
        ),
        Entry(
            "segment", 2310, 19, 7, (330,) * 7,
            36, "minmax", 1.0, 1000, (-50, 1387), "3 x 3 patches of outdoor images",
        ),
        Entry(
            "usps", 9298, 256, 10, (1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821),
            41082, "raw", 1.0, 4000, (-1, 1), "handwritten digits of US zip codes, 16 x 16",
        ),
    )
}  # fmt: skip
