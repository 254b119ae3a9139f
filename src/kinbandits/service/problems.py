"""What a request can be answered with instead of a result. Texts never repeat what was sent."""

from __future__ import annotations

from typing import Any

from kinbandits.errors import KinbanditsError


class Problem(KinbanditsError, RuntimeError):  # noqa: N818 (as in RFC 9457)
    """An answer that is not a result: a status, a code for programs, a sentence for people."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        retry_after: float | None = None,
        errors: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.retry_after, self.errors = retry_after, errors


def unknown_decision() -> Problem:
    """A reward for a decision that this log does not know."""
    return Problem(404, "unknown_decision", "there is no decision of this id")


def unavailable(detail: str = "the log cannot be written now; try again, with the same key") -> Problem:
    """Nothing is wrong with the request."""
    return Problem(503, "unavailable", detail, retry_after=1.0)
