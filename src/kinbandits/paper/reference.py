"""Reference runs of the paper's protocol: a dense float64 solve each round, on the ten published streams.

Regret per stream where it is known run by run, and the mean over the ten streams for every data set. Near-ties
of scores may move a run by a few when the arithmetic differs in its last bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinbandits.paper.protocol import EST, IND
from kinbandits.report.results import Results

__all__ = ["MEANS", "PER_STREAM", "STREAMS_SHA256", "ReferenceRow", "check_reference"]

STREAMS_SHA256 = "f84506dd6ccf26f1f456bb88c9fa3d5559cf09569f0bb8f31234c355c9de8501"


def _runs(text: str) -> tuple[int, ...]:
    return tuple(int(v) for v in text.split())


PER_STREAM: dict[tuple[str, str], tuple[int, ...]] = {
    ("Digits", EST): _runs("315 359 361 323 303 283 321 297 340 350"),
    ("Digits", IND): _runs("324 378 409 337 317 323 326 303 354 347"),
    ("Segment", EST): _runs("166 139 144 136 146 130 131 165 171 170"),
    ("Segment", IND): _runs("146 192 184 179 162 142 206 216 185 214"),
    ("Pendigits", EST): _runs("273 259 339 298 293 326 297 288 293 320"),
    ("Pendigits", IND): _runs("302 306 352 376 315 325 308 281 317 312"),
    ("USPS", EST): _runs("995 893 1052 1079 941 1066 992 859 895 926"),
    ("USPS", IND): _runs("1038 1149 1112 1278 1130 1092 1235 1061 1183 1099"),
    ("MNIST", EST): _runs("923 1003 973 879 978 919 951 1001 979 867"),
    ("MNIST", IND): _runs("928 1315 1105 911 1064 965 1166 991 1017 1053"),
}
MEANS: dict[tuple[str, str], float] = {
    **{key: sum(values) / len(values) for key, values in PER_STREAM.items()},
    ("Letter", EST): 2319.0,
    ("Letter", IND): 2522.0,
}


@dataclass(frozen=True)
class ReferenceRow:
    """One method on one data set beside its reference.

    Attributes:
        mean, reference: mean regret here and there.
        off: their difference in per cent.
        equal: runs whose regret is the reference's exactly (None where runs are not listed).
        largest: largest difference of a run.
    """

    environment: str
    method: str
    runs: int
    mean: float
    reference: float
    off: float
    equal: int | None
    largest: float | None


def check_reference(results: Results) -> list[ReferenceRow]:
    """Every method and data set that was run on the reference streams, at the published settings."""
    rows = []
    for group in results.groups:
        environment = results.record["environments"].get(group.name, {})
        path = environment.get("path")
        if not isinstance(path, dict) or path.get("sha256") != STREAMS_SHA256 or group.seeds != list(range(10)):
            continue
        for method in group.methods:
            key = (group.name, method)
            settings = results.record["methods"].get(f"{method} on {group.name}", {})
            if key not in MEANS or settings.get("preset") != method:
                continue
            finals = group.finals(method)
            listed = PER_STREAM.get(key)
            differences = None if listed is None else [abs(a - b) for a, b in zip(finals, listed, strict=True)]
            rows.append(
                ReferenceRow(
                    environment=group.name,
                    method=method,
                    runs=len(finals),
                    mean=float(finals.mean()),
                    reference=MEANS[key],
                    off=100.0 * (float(finals.mean()) / MEANS[key] - 1.0),
                    equal=None if differences is None else sum(d == 0 for d in differences),
                    largest=None if differences is None else float(max(differences)),
                )
            )
    return rows
