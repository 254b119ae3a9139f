"""How arms resemble each other."""

from kinbandits.similarity.estimated import Estimated as Estimated
