"""The ladder's lower rungs and its appends in the compiled core: the same arrays and rungs, the loops in C."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinbandits import _compiled as compiled
from kinbandits._types import Vector
from kinbandits.regression.base import RegressionSettings
from kinbandits.regression.exact.dual import Dual, Error
from kinbandits.regression.exact.matrix import RECENT, ArmMatrix
from kinbandits.regression.exact.reference import BlocksReference, Reference
from kinbandits.regression.exact.rungs import Round

_RUNGS = ["", "residual", "steps", "widths", "cg"]
_CG, _DRIFTED = 4, 5


class Core:
    """The compiled core on one state."""

    def __init__(
        self, settings: RegressionSettings, matrix: ArmMatrix, dual: Dual, blocks: BlocksReference
    ) -> None:
        self._ridge, self._explore = settings.ridge, settings.cold_start == "explore"
        self._matrix = matrix
        self._dual = dual
        self._blocks = blocks
        self._shares: Vector = np.zeros(len(matrix.rows.counts))
        self._unknown = Error(0.0, 0.0, 0.0, self._shares)
        self._handle: Any = None
        self._heights: list[int] = []  # rows that there is room for, arm by arm
        self.cg_steps = 0

    @staticmethod
    def of(settings: RegressionSettings, matrix: ArmMatrix, dual: Dual, reference: Reference) -> Core | None:
        """Where it is in use, for one term and one block per arm; else None."""
        if compiled.CORE is None or len(matrix.strips) > 1 or not isinstance(reference, BlocksReference):
            return None
        return Core(settings, matrix, dual, reference)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handle": None}  # memory is bound again where the copy lives

    def _bound(self) -> Any:
        if self._handle is None:
            assert compiled.CORE is not None
            (strips,), (Y,), rows, dual = self._matrix.strips, self._dual.Y, self._matrix.rows, self._dual
            blocks = [P.buffer for P in self._blocks.inverses]
            self._heights = [
                min(map(len, of_arm)) for of_arm in zip(rows.index, strips.buffers, blocks, strict=True)
            ]
            self._handle = compiled.CORE.bind(
                rows.arms, rows.counts, rows.index, dual.rewards, dual.alpha, dual.res, Y, strips.recent,
                strips.buffers, blocks, self._shares,
            )  # fmt: skip
        return self._handle

    def append(self, arm: int, values: Vector, reward: float) -> None:
        """A new row of ``arm``, by its context-kernel values to all rows, itself last."""
        assert compiled.CORE is not None
        matrix, dual, blocks = self._matrix, self._dual, self._blocks
        rows, strips = matrix.rows, matrix.strips[0]
        t, n = rows.size, int(rows.counts[arm])
        handle = self._handle or self._bound()
        if t == len(dual.alpha) or n >= self._heights[arm]:
            matrix.reserve(arm), dual.reserve(), blocks.reserve(arm)
            self._handle = None
            handle = self._bound()
        border = blocks.follows(arm, n)
        g, well = compiled.CORE.observe(
            handle, t, strips.first, arm, matrix.K_arms[0], values, reward,
            self._ridge * (n + 1) if matrix.per_arm else self._ridge, blocks.noise[arm], border,
        )  # fmt: skip
        if t - strips.first == RECENT:  # the core has written them
            strips.first = t
        rows.size = t + 1
        matrix.appended(arm, [float(values[t])])
        dual.appended(reward, g)
        if border:
            blocks.inverses[arm].size += well
            blocks.bordered(arm, well)

    def climb(self, asked: Round) -> Iterator[str]:
        """As `Ladder.climb`, but for rungs that leave the leader open."""
        if self._blocks.stale:  # blocks are rebuilt only for rounds that need one
            if self._settle(asked, 0, 0)[0]:
                yield "residual"
            if self._blocks.refresh():
                self._handle = None
        rung, taken = self._settle(asked, self._blocks.first_steps, 0)
        if rung:
            yield _RUNGS[rung]
        rung, _ = self._settle(asked, self._blocks.most_steps - taken, 1)
        if rung:
            yield _RUNGS[rung]
        if rung != _CG:
            self._settle(asked, 0, 2)
            yield "cg"

    def _settle(self, asked: Round, most_steps: int, stage: int) -> tuple[int, int]:
        assert compiled.CORE is not None
        matrix, dual, blocks, noise = self._matrix, self._dual, self._blocks, self._matrix.noise
        (kx,), query, error = asked.probe.kept, asked.probe.query, dual.error or self._unknown
        rung, asked.leader, steps, cg_steps, dual.ones, dual.drift, eta, rounding, floor = compiled.CORE.settle(
            self._handle or self._bound(), matrix.rows.size, matrix.strips[0].first, matrix.K_arms[0],
            noise.per_arm, noise.lift, blocks.noise, blocks.borders, kx, len(kx), query.arms, asked.known,
            self._explore, most_steps, stage,
            (self._ridge, asked.exploration, matrix.kernel_bound, matrix.row_sum, dual.largest_reward,
             noise.lift_root, noise.largest, dual.ones, dual.drift, error.eta, error.rounding, error.floor),
        )  # fmt: skip
        dual.error = Error(eta, rounding, floor, self._shares)
        blocks.steps_taken += steps
        self.cg_steps += cg_steps
        if rung == _DRIFTED:
            dual.recompute()
            return self._settle(asked, most_steps, stage)
        return rung, steps
