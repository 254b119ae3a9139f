"""Bearer tokens: made at random, shown once, kept as hashes, each with roles.

A token holds 256 random bits, so a plain SHA-256 is a safe way to keep it; there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time

from kinbandits.service.store import Store, Token

ROLES = ("decide", "reward", "read", "admin")
_REFRESH = 2.0  # seconds after which a token revoked by another process is refused here
_SESSION = 12 * 3600.0


def new_token() -> str:
    """A new secret."""
    return f"kb_{secrets.token_urlsafe(32)}"


def hash_token(token: str) -> str:
    """What is kept of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Keyring:
    """The valid tokens, read again now and then; and signed sessions of the dashboard."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tokens: dict[str, Token] = {}
        self._names: dict[str, Token] = {}
        self._read_at = float("-inf")
        self._lock = threading.Lock()
        self._secret: bytes | None = None

    def find(self, token: str) -> Token | None:
        """The token with this secret, if it is valid."""
        self._refresh()
        return self._tokens.get(hash_token(token))

    def forget(self) -> None:
        """Read the tokens again when next asked."""
        self._read_at = float("-inf")

    def _refresh(self) -> None:
        if time.monotonic() - self._read_at < _REFRESH:
            return
        with self._lock:
            valid = [t for t in self._store.tokens() if t.revoked is None]
            self._tokens = {t.hash: t for t in valid}
            self._names = {t.name: t for t in valid}
            self._read_at = time.monotonic()

    # -- sessions of the dashboard: the name of a token and a time, signed ----------------------

    def open_session(self, token: Token) -> str:
        """A cookie's value that stands for this token until it expires or the token is revoked."""
        text = f"{token.name}.{int(time.time() + _SESSION)}"
        return f"{text}.{self._sign(text)}"

    def session(self, cookie: str) -> Token | None:
        """The token that this cookie stands for, if it still does."""
        text, _, signature = cookie.rpartition(".")
        name, _, until = text.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(text).encode()):
            return None
        if float(until) < time.time():
            return None
        self._refresh()
        return self._names.get(name)

    def _sign(self, text: str) -> str:
        if self._secret is None:
            kept = self._store.meta("session_secret")
            if kept is None:
                with self._store.transaction() as tx:
                    kept = self._store.meta("session_secret") or secrets.token_hex(32)
                    tx.set_meta("session_secret", kept)
            self._secret = bytes.fromhex(kept)
        return hmac.new(self._secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def first_token(store: Store) -> str | None:
    """An admin token, made when the log has no valid one; shown once, by whoever calls this."""
    if any(t.revoked is None and "admin" in t.roles for t in store.tokens()):
        return None
    from kinbandits.service.events import Draft

    token, now = new_token(), time.time()
    with store.transaction() as tx:
        taken = {t.name for t in tx.tokens()}
        name = next(n for n in ("admin", *(f"admin-{i}" for i in range(2, 10_000))) if n not in taken)
        tx.add_token(Token(name, hash_token(token), ("admin",), now, None))
        tx.append([Draft("token_added", now, {"token": name, "roles": ["admin"], "by": "first start"})])
    return token
