"""Moved to `linalg.inverse`."""

from kinbandits.regression.linalg.inverse import Inverse, add_outer, move_last

__all__ = ["Inverse", "add_outer", "move_last"]
