"""Drafting from text kept on disk (REST, He et al. 2311.08252)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specchat.drafters.method import Method
from specchat.retrieval.datastore import Datastore
from specchat.retrieval.errors import DatastoreError
from specchat.retrieval.lookup import LONGEST_MATCH, continuation
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step


class RestDrafter:
    """Proposes what most often followed the last tokens in its datastores; proposals are one-hot.

    Its state is the last 16 ids. `stores` may be a function: it is called at the first `begin`, which comes after
    the first token, so that opening or building a datastore delays no answer. Where it raises DatastoreError, or
    gives none, nothing is proposed; the reason is in `note`. The drafter closes its stores.
    """

    method = Method.REST

    def __init__(self, stores: Sequence[Datastore] | Callable[[], Sequence[Datastore]]) -> None:
        self._open = stores if callable(stores) else None
        self._stores: Sequence[Datastore] = () if callable(stores) else tuple(stores)
        self._recent: list[int] = []
        self.note: str | None = None
        """Why nothing is proposed, as a sentence for the user; set by the first `begin`."""

    @property
    def name(self) -> str:
        """The method and its datastores, for statistics."""
        names = ", ".join(store.name for store in self._stores)
        return f"rest ({names})" if names else "rest"

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with `ids`; how they are sampled changes no proposal."""
        if self._open is not None:
            opening, self._open = self._open, None
            try:
                self._stores = tuple(opening())
            except DatastoreError as error:
                self.note = str(error)
        self._recent = list(ids[-LONGEST_MATCH:])

    def propose(self, limit: int) -> Draft:
        """Up to `limit` tokens that followed the longest match of the last ids."""
        if limit <= 0 or not self._stores:
            return Draft()
        found = continuation(self._stores, self._recent, limit)
        return Draft(found.ids, match=found.matched)

    def commit(self, step: Step) -> None:
        """Append the tokens of `step`."""
        self._recent = [*self._recent, *step.tokens][-LONGEST_MATCH:]

    def close(self) -> None:
        """Unmap the datastores."""
        for store in self._stores:
            store.close()
        self._stores = ()
