"""Settings by name, as scikit-learn asks for them: ``get_params``, ``set_params``, ``clone``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from kinbandits._renamed import METHODS
from kinbandits._value import changed, deepened, meant
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.terms import Terms


class Parameters:
    """What a policy was built with. Nothing of what it has learned."""

    n_observations: Any
    n_decisions: Any
    parameters: ClassVar[tuple[str, ...]] = ()
    """Names of the arguments; each is an attribute, but for ``arms``, ``kernel`` and ``pending``."""

    if not TYPE_CHECKING:  # a checker is to see what is not there

        def __getattr__(self, name: str) -> Any:
            """Asked only for names that are not there: whoever guesses is told ours."""
            hint = ""
            if not name.startswith("_"):
                public = (n for n in dir(type(self)) if not n.startswith("_"))
                hint = f"; write {METHODS[name]}" if name in METHODS else meant(name, public)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """The settings by name, as given or defaulted; ``type(policy)(**policy.get_params())`` starts afresh.

        With ``deep`` also those of kernels, similarities and schedules, as ``similarity__length_scale``.
        """
        if not self.parameters:
            raise InvalidTypeError(f"{type(self).__name__} has no get_params(), so it cannot be saved or cloned")
        params = {name: self._parameter(name) for name in self.parameters}
        return deepened(params | _of_one_term(params)) if deep else params

    def _parameter(self, name: str) -> Any:
        policy: Any = self
        if name == "arms":
            return list(policy.arms)
        if name == "pending":
            return policy._ledger.pending
        return getattr(policy, "terms" if name == "kernel" else name)

    def set_params(self, **changes: Any) -> Self:
        """Other settings, inner ones as ``similarity__length_scale``, for a policy that has not begun.

        >>> import kinbandits as kb
        >>> kb.KMTLUCB(3, similarity=kb.Mixed(0.2)).set_params(similarity__mu=0.7, ridge=0.1).similarity
        Mixed(mu=0.7)
        """
        if self.n_observations or self.n_decisions:
            raise InvalidInputError(
                f"this policy has learned {self.n_observations} rows and made {self.n_decisions} decisions with "
                "its settings; start afresh with sklearn.base.clone(policy).set_params(...)"
            )
        params = self.get_params()
        named = _of_one_term(params)
        if any(key.partition("__")[0] in named for key in changes):
            params = {**{k: v for k, v in params.items() if k != "kernel"}, **named}
        self.__dict__.update(type(self)(**changed(params, changes, type(self).__name__)).__dict__)
        return self

    def __sklearn_clone__(self) -> Self:
        return type(self)(**self.get_params())


def _of_one_term(params: dict[str, Any]) -> dict[str, Any]:
    """A kernel of one term on all columns, as the two arguments that make it."""
    terms = params.get("kernel")
    if not isinstance(terms, Terms) or len(terms) != 1 or terms.terms[0].columns is not None:
        return {}
    return {"context_kernel": terms.terms[0].context_kernel, "similarity": terms.terms[0].similarity}
