"""What is outside the paper and not needed daily: users in clusters that are found while playing."""

from kinbandits.contrib.clusters import CLUB, OnlineClusters
from kinbandits.contrib.cofiba import COFIBA
from kinbandits.similarity import Clustered

__all__ = ["CLUB", "COFIBA", "Clustered", "OnlineClusters"]
