"""Who may do what: tokens in a file, each with roles; ``Bearer`` for calls, Basic (any user) for pages.

    [shop]
    sha256 = "..."
    roles = ["decide", "reward"]

A token holds 256 random bits, so a plain SHA-256 is a safe way to keep it. If its lines are deleted, the token is
refused a second later.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import logging
import re
import secrets
import time
import tomllib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import Request, Response
from fastapi.routing import APIRoute

from kinbandits._files import replacing
from kinbandits.errors import InvalidInputError
from kinbandits.service.messages import Problem

log = logging.getLogger("kinbandits.service")

ROLES = ("decide", "reward", "read", "admin")


class Token(NamedTuple):
    """A token without its secret."""

    name: str
    roles: frozenset[str]


class Tokens:
    """The tokens of a file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._seen: tuple[int, int] | None = None
        self._looked = time.monotonic()
        self._by_hash: dict[str, Token] = {}
        if not self.path.exists():
            command = f"kinbandits token new admin --role admin --tokens {self.path}"
            raise InvalidInputError(f"there is no file of tokens {self.path}; make one with: {command}")
        self._read()

    def _read(self) -> None:
        about = self.path.stat()
        self._by_hash = {str(t["sha256"]): Token(name, frozenset(t["roles"])) for name, t in read(self.path).items()}
        self._seen = about.st_mtime_ns, about.st_size

    def _refresh(self) -> None:
        """Read the file again if it has changed, looking once a second; one that cannot be read changes nothing."""
        if time.monotonic() < self._looked + 1.0:
            return
        self._looked = time.monotonic()
        try:
            about = self.path.stat()
            if self._seen != (about.st_mtime_ns, about.st_size):
                self._read()
                log.info("tokens read again", extra={"tokens": len(self._by_hash)})
        except (OSError, InvalidInputError) as error:
            if self._seen is not None:
                log.warning("tokens not read again", extra={"reason": str(error)})
            self._seen = None

    def find(self, method: str, authorization: bytes) -> Token | None:
        """The valid token that a request was sent with."""
        self._refresh()
        scheme, _, value = authorization.decode("latin-1").partition(" ")
        if scheme.lower() == "bearer":
            return self._by_hash.get(_hash(value.strip()))
        if scheme.lower() == "basic" and method in ("GET", "HEAD"):  # a browser sends it by itself: it changes nothing
            with contextlib.suppress(binascii.Error, ValueError):
                text = base64.b64decode(value, validate=True).decode("latin-1")
                return self._by_hash.get(_hash(text.partition(":")[2]))
        return None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def read(path: Path) -> dict[str, Any]:
    """The tables of a file of tokens."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} cannot be read as TOML: {error}") from error
    for name, table in tables.items():
        fits = isinstance(table, dict) and table.keys() == {"sha256", "roles"} and isinstance(table["roles"], list)
        if not fits or not re.fullmatch("[0-9a-f]{64}", str(table["sha256"])) or set(table["roles"]) - set(ROLES):
            raise InvalidInputError(f"{path}: [{name}] needs sha256 (64 hexadecimal digits) and roles of {list(ROLES)}")
    return tables


def new_token(path: Path, name: str, roles: list[str]) -> str:
    """Add a token to a file, which is made if it is not there; the secret, which is kept nowhere."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise InvalidInputError(f"the name of a token has letters, digits, - and _ only, got {name!r}")
    if not roles or set(roles) - set(ROLES):
        raise InvalidInputError(f"--role is one of {', '.join(ROLES)}, got {', '.join(roles) or 'none'}")
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if before and name in read(path):
        raise InvalidInputError(f"{path} has a token {name} already; choose another name, or delete its lines")
    secret = f"kb_{secrets.token_urlsafe(32)}"
    listed = ", ".join(f'"{role}"' for role in dict.fromkeys(roles))
    with replacing(path) as part:
        part.touch(mode=0o600)
        part.write_text(f'{before}[{name}]\nsha256 = "{_hash(secret)}"\nroles = [{listed}]\n\n', encoding="utf-8")
        if path.exists():
            part.chmod(path.stat().st_mode & 0o777)
    return secret


class RoleRoute(APIRoute):
    """A route that needs the role it is tagged with (``admin`` has all); without a tag, none."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, behind the check."""
        handle, needed = super().get_route_handler(), {*self.tags, "admin"}

        async def checked(request: Request) -> Response:
            if self.tags and needed.isdisjoint(request.scope["kinbandits.token"].roles):
                raise Problem(403, "wrong_role", f"this needs a token with the role {self.tags[0]}")
            return await handle(request)

        return checked


async def name_of_token(request: Request) -> str:
    """For a route: who asks."""
    token: Token = request.scope["kinbandits.token"]
    return token.name
