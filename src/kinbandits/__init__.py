"""Contextual bandits whose arms are kin: what one arm learns helps the arms that resemble it."""

from kinbandits._version import __version__ as __version__
