"""Pages for people (placeholder while they are drawn)."""

from __future__ import annotations

from fastapi import FastAPI

from kinbandits.service.engine import Engine
from kinbandits.service.tokens import Keyring


def add_pages(app: FastAPI, engine: Engine, keyring: Keyring) -> None:
    """Add the pages."""
