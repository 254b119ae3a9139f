"""Bearer tokens: made at random, shown once, kept as hashes, each with roles.

A token holds 256 random bits, so a plain SHA-256 is a safe way to keep it; there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time

from kinbandits.service.store import Session, Store, StoreUnavailableError, Token

log = logging.getLogger("kinbandits.service")

ROLES = ("decide", "reward", "read", "admin")
_REFRESH = 1.0  # seconds between two looks at what other processes have made and revoked
_SESSION = 12 * 3600.0


def new_token() -> str:
    """A new secret."""
    return f"kb_{secrets.token_urlsafe(32)}"


def hash_token(token: str) -> str:
    """What is kept of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Keyring:
    """The valid tokens and the logins to the dashboard, as they were read last.

    Nothing here waits for the database but `refresh`, which a thread of its own calls: a database that hangs must
    not keep the server from answering.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_hash: dict[str, Token] = {}
        self._by_name: dict[str, Token] = {}
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self.refresh()

    def find(self, token: str) -> Token | None:
        """The token with this secret, if it is valid."""
        return self._by_hash.get(hash_token(token))

    def holds(self, token: Token) -> bool:
        """Whether it is still valid."""
        return token.hash in self._by_hash

    def refresh(self) -> None:
        """Read tokens and sessions again."""
        with self._lock:
            valid = [t for t in self._store.tokens() if t.revoked is None]
            sessions = {s.hash: s for s in self._store.sessions()}
            self._by_hash, self._by_name = {t.hash: t for t in valid}, {t.name: t for t in valid}
            self._sessions = sessions

    def keep_fresh(self) -> None:
        """Refresh now and then, until closed; for a thread."""
        while not self._closed.wait(_REFRESH):
            try:
                self.refresh()
            except StoreUnavailableError as error:
                log.warning("tokens not read again", extra={"reason": str(error)})

    def close(self) -> None:
        """End `keep_fresh`."""
        self._closed.set()

    # -- logins to the dashboard ----------------------------------------------------------------

    def open_session(self, token: Token) -> str:
        """A cookie's value that stands for this token until it expires or the token is revoked."""
        secret, now = secrets.token_urlsafe(32), time.time()
        session = Session(hash_token(secret), token.name, now + _SESSION)
        with self._store.transaction() as tx:
            tx.open_session(session, now)
        self._sessions = {**self._sessions, session.hash: session}
        return secret

    def session(self, cookie: str) -> Token | None:
        """The token that this cookie stands for, if it still does."""
        found = self._sessions.get(hash_token(cookie))
        if found is None or found.until < time.time():
            return None
        return self._by_name.get(found.token)


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
